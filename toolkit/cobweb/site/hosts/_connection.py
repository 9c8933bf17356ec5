"""Ansible's connection variables: it takes wrong names and values in silence, Cobweb does not."""

from __future__ import annotations

from difflib import get_close_matches

from cobweb.site.reading._findings import Findings
from cobweb.site.reading._nodes import Leaf, Map, Node, key_place

_PREFIX = "ansible_"
_CLOSE = 0.86
_MAX_PORT = 65535

_KNOWN = frozenset(
    [
        *("become", "become_exe", "become_flags", "become_method", "become_pass"),
        *("become_password", "become_user"),
        *("httpapi_pass", "httpapi_port", "httpapi_use_proxy", "httpapi_use_ssl"),
        *("httpapi_validate_certs",),
        *("play_batch", "play_hosts", "play_hosts_all", "play_name", "play_role_names"),
        *("psrp_auth", "psrp_cert_validation", "psrp_protocol", "psrp_proxy"),
        *("ssh_args", "ssh_common_args", "ssh_executable", "ssh_extra_args", "ssh_host"),
        *("ssh_host_key_checking", "ssh_pass", "ssh_password", "ssh_pipelining", "ssh_port"),
        *("ssh_private_key", "ssh_private_key_file", "ssh_private_key_passphrase", "ssh_retries"),
        *("ssh_timeout", "ssh_transfer_method", "ssh_use_tty", "ssh_user"),
        *("su", "su_exe", "su_flags", "su_pass", "su_password", "su_user"),
        *("sudo", "sudo_exe", "sudo_flags", "sudo_pass", "sudo_password", "sudo_user"),
        *("winrm_cert_key_pem", "winrm_cert_pem", "winrm_connection_timeout"),
        *("winrm_kerberos_delegation", "winrm_kinit_cmd", "winrm_message_encryption"),
        *("winrm_operation_timeout_sec", "winrm_path", "winrm_port", "winrm_read_timeout_sec"),
        *("winrm_scheme", "winrm_server_cert_validation", "winrm_transport", "winrm_user"),
        *("async_dir", "check_mode", "collection_name", "config_file", "connect_timeout"),
        *("connection", "connection_user", "control_path", "control_path_dir"),
        *("dependent_role_names", "diff_mode", "docker_extra_args", "fact_path", "facts", "forks"),
        *("group_priority", "host", "host_key_checking", "index_var", "inventory_sources", "limit"),
        *("local", "loop", "loop_var", "module_compression", "network_cli_ssh_type", "network_os"),
        *("paramiko_host_key_auto_add", "paramiko_proxy_command", "paramiko_pty"),
        *("parent_role_names", "parent_role_paths", "password", "persistent_command_timeout"),
        *("persistent_connect_timeout", "persistent_log_messages", "pipelining", "playbook_python"),
        *("port", "private_key_file", "python_interpreter", "remote_addr", "remote_tmp"),
        *("role_name", "role_names", "run_tags", "scp_executable", "scp_extra_args", "scp_if_ssh"),
        *("search_path", "sftp_batch_mode", "sftp_executable", "sftp_extra_args"),
        *("shell_executable", "shell_type", "skip_tags", "sshpass_prompt", "strategy"),
        *("system_tmpdirs", "timeout", "user", "user_dir", "user_id", "verbosity", "version"),
    ]
)
_PORTS = ("ansible_port", "ansible_ssh_port", "ansible_httpapi_port", "ansible_winrm_port")


def check_variables(variables: Map, findings: Findings) -> None:
    """Find variables that are almost Ansible's own, and its own with values it cannot use."""
    for name, node in variables.items.items():
        if not name.startswith(_PREFIX):
            continue
        short = name.removeprefix(_PREFIX)
        if short not in _KNOWN and not short.endswith("_interpreter"):
            if close := get_close_matches(short, _KNOWN, n=1, cutoff=_CLOSE):
                place = key_place(variables, name)
                hint = f"did you mean `{_PREFIX}{close[0]}`?"
                findings.add(place, f"Ansible knows no variable `{name}`", hint)
        elif name in _PORTS and not _is_port(node):
            message = f"`{name}` must be a port number, 1 to {_MAX_PORT}"
            findings.add(node.place, message)


def is_fact(name: str) -> bool:
    """Say whether a variable that a site lacks is one that Ansible would gather on the host."""
    short = name.removeprefix(_PREFIX)
    if name == "ansible_facts":
        return True
    is_known = short in _KNOWN or get_close_matches(short, _KNOWN, n=1, cutoff=_CLOSE)
    return name.startswith(_PREFIX) and not is_known


def _is_port(node: Node) -> bool:
    value = node.value if isinstance(node, Leaf) else None
    if isinstance(value, str) and value.isascii() and value.isdigit():
        value = int(value)
    if isinstance(value, str):
        return "{{" in value
    return isinstance(value, dict) or (type(value) is int and 0 < value <= _MAX_PORT)
