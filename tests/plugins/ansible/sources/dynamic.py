#!/usr/bin/env python3
"""A dynamic inventory with a vaulted value and a template."""

from __future__ import annotations

import json
import sys

CIPHER = "$ANSIBLE_VAULT;1.1;AES256\n3132\n"
HOST = {"secret": {"__ansible_vault": CIPHER}, "url": "http://{{ inventory_hostname }}/"}
FOUND = {"g": {"hosts": ["d1"]}, "_meta": {"hostvars": {"d1": HOST}, "new": 1}}
sys.stdout.write(json.dumps(FOUND))
