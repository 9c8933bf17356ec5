"""A PostgreSQL primary with standbys on hosts of a fabric, set up without Cobweb."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

from tests.support.fabric import Fabric, FabricHost, Init

__all__ = [
    "UNIT",
    "Database",
    "conninfos",
    "make_primary",
    "make_standby",
    "set_all_connections",
]

UNIT = "postgresql@15-main"
_BIN = "/usr/lib/postgresql/15/bin"
_DATA = "/var/lib/postgresql/database"
_WAIT_S = 100.0
_POLL_S = 0.1
_UNIT_FILE = f"""[Service]
Type=notify
User=postgres
ExecStart={_BIN}/postgres -D {_DATA}
KillMode=mixed
KillSignal=SIGINT
"""
_HEAD = f"""set -e
export LC_ALL=C
mkdir -p /run/postgresql
chown postgres /run/postgresql
start() {{
  if [ -d /run/systemd/system ]; then
    printf '%s' "$UNIT_FILE" > /etc/systemd/system/{UNIT}.service
    systemctl daemon-reload
    systemctl start {UNIT}
  else
    runuser -u postgres -- {_BIN}/pg_ctl -D {_DATA} -l /var/lib/postgresql/database.log -w \\
      start > /dev/null
  fi
}}
"""
_PRIMARY = f"""
runuser -u postgres -- {_BIN}/initdb -D {_DATA} -A trust --no-sync > /dev/null
cat >> {_DATA}/postgresql.conf <<E
listen_addresses = '*'
shared_buffers = 16MB
fsync = off
wal_keep_size = 64MB
wal_receiver_status_interval = 1
wal_retrieve_retry_interval = 200ms
E
echo 'host all,replication all 10.77.0.0/16 trust' >> {_DATA}/pg_hba.conf
start
runuser -u postgres -- psql -Xqc 'CREATE ROLE copier REPLICATION LOGIN'
"""
_STANDBY = f"""
runuser -u postgres -- {_BIN}/pg_basebackup -D {_DATA} -R -X stream -c fast --no-sync \\
  -d "host=$PRIMARY user=copier application_name=$NAME"
start
"""


@dataclass(frozen=True, slots=True)
class Database:
    """One server, on port 5432 of its host; the host has the default socket for it."""

    fabric: Fabric
    host: FabricHost

    @property
    def unit(self) -> dict[str, str]:
        """Return the key of a spec that says how to restart it, on a host with systemd."""
        return {"unit": UNIT} if self.host.init is Init.SYSTEMD else {}

    def sql(self, statements: str, database: str = "postgres") -> str:
        """Return what psql prints."""
        argv = ["runuser", "-u", "postgres", "--", "psql", "-XAtqc", statements, database]
        return self.fabric.run(self.host, *argv, timeout_s=_WAIT_S).stdout.strip()

    def value(self, parameter: str = "max_connections") -> str:
        """Return a parameter as it is in force."""
        return self.sql(f"SHOW {parameter}")

    def stop(self) -> None:
        """Stop the server; it is not started by itself."""
        if self.host.init is Init.SYSTEMD:
            self.fabric.run(self.host, "systemctl", "stop", UNIT)
        else:
            self._run(f"runuser -u postgres -- {_BIN}/pg_ctl -D {_DATA} -w -m fast stop >/dev/null")

    def start(self) -> None:
        """Start the server again."""
        self._run(f"{_HEAD}start")

    def set_connections(self, value: int) -> None:
        """Give it another max_connections, unless it has that."""
        if self.value() != str(value):
            self.sql(f"ALTER SYSTEM SET max_connections = {value}")
            self.stop()
            self.start()

    def _run(self, script: str, **variables: str) -> None:
        pairs = [f"{key}={value}" for key, value in variables.items()]
        argv = ["env", f"UNIT_FILE={_UNIT_FILE}", *pairs, "bash", "-c", script]
        done = self.fabric.run(self.host, *argv, timeout_s=_WAIT_S, check=False)
        assert done.returncode == 0, done.stdout + done.stderr


def make_primary(fabric: Fabric, host: FabricHost) -> Database:
    """Set up a primary and start it."""
    made = Database(fabric, host)
    made._run(_HEAD + _PRIMARY)
    return made


def make_standby(primary: Database, host: FabricHost) -> Database:
    """Copy the primary and start a standby of it."""
    made = Database(primary.fabric, host)
    made._run(_HEAD + _STANDBY, PRIMARY=primary.host.address, NAME=host.name)
    return made


def set_all_connections(primary: Database, standbys: Sequence[Database], value: int) -> None:
    """Give all servers of a cluster the same max_connections, in an order that is always right."""
    most = max(value, *(int(server.value()) for server in (primary, *standbys)))
    for standby in standbys:
        standby.set_connections(most)
    primary.set_connections(value)
    position = primary.sql("SELECT pg_current_wal_flush_lsn()")
    for standby in standbys:
        deadline = time.monotonic() + _WAIT_S
        while standby.sql(f"SELECT pg_last_wal_replay_lsn() >= '{position}'") != "t":
            assert time.monotonic() < deadline, f"{standby.host.name} does not replay"
            time.sleep(_POLL_S)
        standby.set_connections(value)


def conninfos(standbys: Sequence[Database]) -> list[str]:
    """Return the connection strings by which a primary asks its standbys."""
    return [f"host={one.host.address} user=copier" for one in standbys]
