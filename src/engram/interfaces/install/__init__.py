"""Engram's hooks and MCP server in the settings files of a harness.

Each harness is one small module with the paths of its files and the form of an entry (`claude_code`, `codex`,
`gemini`, `cursor`). All changes are planned before anything is written (`plan`), as text edits that keep
everything else in a file: order, comments, indentation (`jsontext`, `tomltext`). Only then are the files
backed up and replaced (`files`). There is no record of what was installed: an entry of Engram is recognised by the
program that it starts (`commands`), so entries of older installations are found too.
"""
