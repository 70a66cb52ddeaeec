"""The version and the distribution's name. Imports nothing, so that `engram --version` is fast."""

VERSION = "0.1.0"

#: The name on PyPI. Another project owns the name `engram` there, so every install command uses this name.
DISTRIBUTION = "engram-agents"
UPGRADE = f"pip install --upgrade {DISTRIBUTION}"


def install_command(extra: str) -> str:
    """The command that installs an optional extra, with the program that installed Engram."""
    import os
    import sys

    receipt = os.path.join(sys.prefix, "uv-receipt.toml")
    if os.path.isfile(receipt):
        return _uv_command(receipt, extra)
    if os.path.isfile(os.path.join(sys.prefix, "pipx_metadata.json")):
        return f"pipx runpip {DISTRIBUTION} install '{DISTRIBUTION}[{extra}]'"
    return f"pip install '{DISTRIBUTION}[{extra}]'"


def _uv_command(receipt: str, extra: str) -> str:
    """`uv tool install` replaces the whole tool, so the command names what is installed already, too."""
    import tomllib

    source, extras, others = DISTRIBUTION, {extra}, []
    try:
        with open(receipt, "rb") as file:
            for each in tomllib.load(file)["tool"]["requirements"]:
                if each["name"] == DISTRIBUTION:
                    source = each.get("directory") or each.get("path") or DISTRIBUTION
                    extras.update(each.get("extras", ()))
                else:
                    others.append(f" --with '{each['name']}{each.get('specifier', '')}'")
    except (OSError, ValueError, LookupError, TypeError, AttributeError):
        pass  # the extra alone is still right
    return f"uv tool install '{source}[{','.join(sorted(extras))}]'{''.join(others)}"
