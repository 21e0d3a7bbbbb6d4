"""What makes the tools of a review go through envlock, as texts: git, pre-commit, GitHub, GitLab. Pure."""

from __future__ import annotations

ATTRIBUTES = """# envlock: package changes instead of hashes in `git diff`, and a merge that knows what a lock is
locks/*.toml text eol=lf diff=envlock merge=envlock
"""

GIT_SETUP = """#!/bin/sh
# Run once in each clone: git takes no drivers from a repository. The attributes are in .gitattributes.
set -eu
git config diff.envlock.textconv 'envlock git-show'
git config diff.envlock.cachetextconv true
git config merge.envlock.name 'envlock lock merge'
git config merge.envlock.driver 'envlock git-merge %O %A %B %P'
"""

PRE_COMMIT = """# .pre-commit-config.yaml: refuse a commit whose locks no longer answer their profiles
repos:
  - repo: local
    hooks:
      - id: envlock-lock-check
        name: locks answer their profiles
        entry: envlock lock --check
        language: system
        pass_filenames: false
        files: ^(profiles|locks)/
"""

# The comment is found by its first line and updated; only curl and python3 are needed beside envlock.
_COMMENT = r"""
find_comment() { python3 -c 'import json, sys
print(next((str(c["id"]) for c in json.load(sys.stdin) if c["body"].startswith("<!-- envlock diff -->")), ""))'; }
body() { python3 -c 'import json, sys; print(json.dumps({"body": open("envlock-diff.md").read()}))'; }
"""


def _indented(text: str, by: int) -> str:
    return "".join(f"{' ' * by}{line}\n" if line else "\n" for line in text.strip("\n").splitlines())


GITHUB_STEPS = f"""{_COMMENT}
envlock lock --check
envlock diff --base "$BASE" --format markdown -o envlock-diff.md
api="$GITHUB_API_URL/repos/$GITHUB_REPOSITORY"
auth="Authorization: Bearer $GITHUB_TOKEN"
id=$(curl -fsS -H "$auth" "$api/issues/$NUMBER/comments?per_page=100" | find_comment)
if [ -n "$id" ]; then
  body | curl -fsS -X PATCH -H "$auth" -d @- "$api/issues/comments/$id" >/dev/null
else
  body | curl -fsS -X POST -H "$auth" -d @- "$api/issues/$NUMBER/comments" >/dev/null
fi
envlock diff --base "$BASE" --fail-on critical >/dev/null
"""

GITHUB = f"""# .github/workflows/envlock.yml: what a pull request does to the locks, in one comment that is updated
name: envlock
on:
  pull_request:
    paths: ["profiles/**", "locks/**"]
permissions:
  contents: read
  pull-requests: write
jobs:
  diff:
    runs-on: ubuntu-latest
    steps:
      - uses: actions/checkout@v4
        with:
          fetch-depth: 0
      - uses: actions/setup-python@v5
        with:
          python-version: "3.11"
      - run: python -m pip install envlock-gpu
      - shell: bash
        env:
          BASE: ${{{{ github.event.pull_request.base.sha }}}}
          NUMBER: ${{{{ github.event.pull_request.number }}}}
          GITHUB_TOKEN: ${{{{ github.token }}}}
        run: |
{_indented(GITHUB_STEPS, 10)}"""

GITLAB_STEPS = f"""{_COMMENT}
envlock lock --check
envlock diff --base "$CI_MERGE_REQUEST_DIFF_BASE_SHA" --format markdown -o envlock-diff.md
notes="$CI_API_V4_URL/projects/$CI_PROJECT_ID/merge_requests/$CI_MERGE_REQUEST_IID/notes"
auth="PRIVATE-TOKEN: $ENVLOCK_GITLAB_TOKEN"
id=$(curl -fsS -H "$auth" "$notes?per_page=100" | find_comment)
if [ -n "$id" ]; then
  body | curl -fsS -X PUT -H "$auth" -H "Content-Type: application/json" -d @- "$notes/$id" >/dev/null
else
  body | curl -fsS -X POST -H "$auth" -H "Content-Type: application/json" -d @- "$notes" >/dev/null
fi
envlock diff --base "$CI_MERGE_REQUEST_DIFF_BASE_SHA" --fail-on critical >/dev/null
"""

GITLAB = f"""# .gitlab-ci.yml: what a merge request does to the locks, in one note that is updated
envlock:
  image: python:3.11
  rules:
    - if: $CI_PIPELINE_SOURCE == "merge_request_event"
      changes: ["profiles/**/*", "locks/**/*"]
  variables:
    GIT_DEPTH: "0"
  script:
    - python -m pip install envlock-gpu
    - |
{_indented(GITLAB_STEPS, 6)}"""
