"""Task files that carry out what Coopr's automators did; a site gets and then owns them."""

from __future__ import annotations

_ACTION = """\
# How actions of services are carried out by AUTOMATOR. This file is yours to change.
# `cob.spec.config` is the configuration of the cluster, `cob.spec.fields` what each action gets.
- name: Say which action this is, and what it gets
  ansible.builtin.set_fact:
    service_fields: "{{ cob.spec.fields[action] | default({}) }}"
  vars:
    upgrade: "{{ 'upgrade' if 'upgrade' in cob.spec.fields else 'install' }}"
    steps: {absent: install, installed: configure, stale: configure, configured: initialize,
      initialized: start, shelved: "{{ upgrade }}"}
    action: "{{ 'stop' if cob.state in ['started', 'outdated', 'obsolete'] else
      'remove' if cob.target == 'absent' else steps[cob.state] }}"
"""
_CHEF = """\

- name: Write the attributes
  ansible.builtin.copy:
    content: "{{ cob.spec.config | combine(service_fields.json_attributes | default('{}')
      | from_json, recursive=true) | to_nice_json }}"
    dest: "/var/lib/cobweb-{{ cob.spec.service }}.json"
    mode: "0600"

- name: Run the recipes, from the cookbooks that chef-solo is set up for on the node
  ansible.builtin.command:
    argv:
      - chef-solo
      - --json-attributes
      - "/var/lib/cobweb-{{ cob.spec.service }}.json"
      - --override-runlist
      - "{{ service_fields.run_list }}"
  changed_when: true
"""
_SHELL = """\

- name: Run the script of the action
  ansible.builtin.command:
    cmd: "{{ service_fields.script }} {{ service_fields.args | default('') }}"
  changed_when: true
"""
_UNKNOWN = """\

- name: Nobody has said yet how this is done
  ansible.builtin.fail:
    msg: "write in this file what the automator AUTOMATOR does with {{ service_fields }}"
"""


def task_file(automator: str) -> str:
    """Return the task file of an automator; of one that is not known, tasks that say so."""
    bodies = {"chef-solo": _CHEF, "shell": _SHELL}
    body = bodies.get(automator, _UNKNOWN)
    return f"{_ACTION}{body}".replace("AUTOMATOR", automator)
