"""Telling a harness about Engram: its hooks and the MCP server, in the harness's own settings files.

Each harness is one small module that says where its files are and what an entry looks like (`claude_code`, `codex`,
`gemini`, `cursor`). What to change is worked out in full before anything is written (`plan`), as text edits that keep
everything else in a file as it was: order, comments, indentation (`jsontext`, `tomltext`). Only then are the files
backed up and replaced (`files`). Nothing here remembers what was installed: an entry of Engram's is recognised by the
program it starts (`commands`), so that one written by an older installation is found, too.
"""
