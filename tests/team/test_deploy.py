"""The files in `deployment/`: each is checked by the program that reads it, where that is installed."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import click
import pytest
import yaml  # type: ignore[import-untyped]

from engram.interfaces.cli import cli
from tests.team.conftest import DEPLOY

ROOT = DEPLOY.parent
#: Programs of administrators are not in an ordinary user's PATH.
PATH = f"{os.environ.get('PATH', os.defpath)}:/usr/sbin:/sbin"
#: Where a unit expects Engram.
INSTALLED = "/opt/engram/bin/engram"
VALUES = {"${PUBLIC_URL}": "https://engram.example.org", "${PUBLIC_HOST:?}": "engram.example.org", "%i": "8377"}


def program(name: str) -> str:
    found = shutil.which(name, path=PATH)
    if found is None:
        pytest.skip(f"{name} is not installed")
    return found


def check(*command: str, **environment: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False, env={**os.environ, **environment})
    assert done.returncode == 0, done.stdout + done.stderr


def parsed(arguments: list[str]) -> click.Context:
    """What Engram's command line makes of these arguments. Wrong ones raise an error."""
    arguments = [_filled(each) for each in arguments]
    # With the settings of the program: a command keeps the help option that it is first asked with.
    context = click.Context(cli, info_name="engram", **cli.context_settings)
    while isinstance(context.command, click.Group):
        name = arguments.pop(0)
        command = context.command.get_command(context, name)
        assert command is not None
        if isinstance(command, click.Group):
            context = click.Context(command, context, name)
        else:
            context = command.make_context(name, arguments, context)
    return context


def _filled(text: str) -> str:
    for name, value in VALUES.items():
        text = text.replace(name, value)
    return text


def units() -> list[Path]:
    return sorted([*DEPLOY.glob("*.service"), *DEPLOY.glob("*.timer")])


def services() -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load((DEPLOY / "compose.yaml").read_text())["services"]
    return found


@pytest.mark.requirement("TEAM-5")
def test_systemd_accepts_the_units(tmp_path: Path) -> None:
    analyze = program("systemd-analyze")
    assert len(units()) == 4
    for unit in units():
        # A unit is checked with the program that it starts, so that has to be there.
        text = unit.read_text().replace(INSTALLED, sys.executable)
        (tmp_path / unit.name.replace("@", "@8377")).write_text(text)
    check(analyze, "verify", *map(str, sorted(tmp_path.iterdir())))


@pytest.mark.requirement("TEAM-5")
def test_every_command_in_the_files_is_one_that_engram_has() -> None:
    starts = [line for unit in units() for line in re.findall(r"^ExecStart=(.*)$", unit.read_text(), re.MULTILINE)]
    assert len(starts) == 3
    for start in starts:
        name, *arguments = shlex.split(start)
        assert name == INSTALLED
        parsed(arguments)
    for name in ("one", "two", "upgrade"):
        parsed(services()[name]["command"])
    serve = parsed(services()["one"]["command"])
    assert (serve.params["host"], serve.params["behind_proxy"]) == ("0.0.0.0", True)
    assert serve.params["public_url"] == "https://engram.example.org"


@pytest.mark.requirement("TEAM-5")
def test_nginx_accepts_its_file(tmp_path: Path) -> None:
    nginx, openssl = program("nginx"), program("openssl")
    names = ("-keyout", str(tmp_path / "privkey.pem"), "-out", str(tmp_path / "fullchain.pem"))
    check(openssl, "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=engram", *names)
    site = tmp_path / "site.conf"
    site.write_text((DEPLOY / "nginx.conf").read_text().replace("/etc/ssl/engram", str(tmp_path)))
    whole = tmp_path / "nginx.conf"
    places = f"pid {tmp_path}/pid; error_log {tmp_path}/errors;"
    whole.write_text(f"{places} events {{}} http {{ access_log off; include {site}; }}\n")
    check(nginx, "-t", "-q", "-c", str(whole))


@pytest.mark.requirement("TEAM-5")
def test_caddy_accepts_its_file(tmp_path: Path) -> None:
    options = ("--adapter", "caddyfile", "--config", str(DEPLOY / "Caddyfile"))
    check(program("caddy"), "validate", *options, HOME=str(tmp_path), XDG_DATA_HOME=str(tmp_path))


@pytest.mark.requirement("TEAM-5")
def test_the_container_is_made_of_files_and_extras_that_exist() -> None:
    text = (DEPLOY / "Containerfile").read_text()
    copied = [name for line in re.findall(r"^COPY (.*) \S+$", text, re.MULTILINE) for name in line.split()]
    assert all((ROOT / name).exists() for name in copied)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    needed = {"pyproject.toml", "src", project["readme"], *project["license-files"]}
    assert needed <= set(copied)
    extras = re.findall(r"'/src\[(.*)\]'", text)
    assert extras == ["postgres,server"]
    assert set(extras[0].split(",")) <= project["optional-dependencies"].keys()


@pytest.mark.requirement("TEAM-5")
def test_the_services_of_the_compose_file_name_each_other_and_files_that_exist() -> None:
    found = services()
    for service in found.values():
        assert set(service.get("depends_on", ())) <= found.keys()
        mounted = [volume.partition(":")[0] for volume in service.get("volumes", ()) if volume.startswith("./")]
        assert all((DEPLOY / name).exists() for name in mounted)
        if "build" in service:
            assert (DEPLOY / service["build"]["context"] / service["build"]["dockerfile"]).exists()
    servers = [f"{name}:8377" for name in ("one", "two")]
    assert found["proxy"]["environment"]["SERVERS"].split() == servers
    for name, role in (("one", "engram_app"), ("two", "engram_app"), ("upgrade", "engram_owner")):
        assert found[name]["environment"]["ENGRAM_URL"].startswith(f"postgresql://{role}:")


@pytest.mark.requirement("TEAM-5")
def test_a_shell_reads_the_settings_of_the_servers_whole(tmp_path: Path) -> None:
    """An administrator loads the files of systemd to make a token. In a shell an & without quotes ends a command."""
    for unit in ("engram@.service", "engram-upgrade.service"):
        (line,) = re.findall(r"^# +(ENGRAM_URL=.*)$", (DEPLOY / unit).read_text(), re.MULTILINE)
        assert line in (ROOT / "docs" / "team.md").read_text().replace("…", "PASSWORD")
        (tmp_path / "server.env").write_text(f"{line}\n")
        script = "set -a; . ./server.env; set +a; printenv ENGRAM_URL"
        told = subprocess.run(["sh", "-c", script], cwd=tmp_path, capture_output=True, text=True, check=True).stdout
        assert told.startswith("postgresql://alpha_") and told.endswith("/engram?schema=alpha&sslmode=verify-full\n")
