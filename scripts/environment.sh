#!/usr/bin/env bash
# Create the Python environment of this package, or find it, and print its path as the last line.
#
#   scripts/environment.sh             the environment
#   scripts/environment.sh --ubuntu    a folder with the libraries of Ubuntu 24.04, to be put over it by PYTHONPATH
#   scripts/environment.sh --ray       a folder with Ray, likewise
#
# It is several GB (torch), so it lives outside the clone in a cache that all clones share. Its name is the hash of the
# requirement files, so a change of them makes a new one. AERIAL_VPR_ENV_ROOT places it elsewhere, PYTHON picks the interpreter,
# AERIAL_VPR_ENV names an environment of yours to be used instead.
set -euo pipefail

top=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
python=${PYTHON:-python3}
root=${AERIAL_VPR_ENV_ROOT:-${XDG_CACHE_HOME:-$HOME/.cache}/aerial_vpr_cl}
say() { printf 'env: %s\n' "$*" >&2; }

case "${1:-}" in
  "") overlaid= ;;
  --ubuntu) overlaid=ubuntu what="the libraries of Ubuntu 24.04, about 600 MB" ;;
  --ray) overlaid=ray what="Ray, about 250 MB" ;;
  *) say "unknown option $1; there are only --ubuntu and --ray"; exit 2 ;;
esac
if [ -n "${AERIAL_VPR_ENV:-}" ] && [ $# -eq 0 ]; then
  printf '%s\n' "$AERIAL_VPR_ENV"
  exit
fi

"$python" -c 'import sys; sys.exit(not (3, 10) <= sys.version_info[:2] <= (3, 12))' || {
  say "$("$python" --version) found; Python 3.10 to 3.12 is needed (set PYTHON=python3.12, for example)"
  exit 1
}

requirements=("$top/requirements/runtime.txt" "$top/requirements/onnx.txt" "$top/requirements/test.txt")
arguments=(-r "$top/requirements/runtime.txt" -r "$top/requirements/onnx.txt" -r "$top/requirements/test.txt")
# Sourced means visible through PYTHONPATH only: an rclpy of an active virtual environment would not be seen by the new one.
if "$python" -c 'import rclpy' 2>/dev/null && ! "$python" -I -c 'import rclpy' 2>/dev/null; then
  ros=sourced
  requirements+=("$top/requirements/sourced_ros.txt")
  arguments+=(-r "$top/requirements/sourced_ros.txt")
else
  ros=wheels
  requirements+=("$top/requirements/ros.txt")
  arguments+=(-r "$top/requirements/ros.txt")
fi

version=$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')
key=$(cat "${requirements[@]}" | sha256sum | cut -c1-12)
env="$root/env-py$version-$ros-$key"

mkdir -p "$root"
exec 9>"$env.lock"
flock 9  # two clones asking at once: the second waits and then finds it ready
if [ ! -e "$env/.complete" ]; then
  say "creating $env"
  say "installing PyTorch, ROS 2 ($ros) and the rest: about 6 GB, a few minutes the first time, seconds afterwards"
  rm -rf "$env"
  "$python" -m venv "$env"
  "$env/bin/python" -m pip install --quiet --disable-pip-version-check "${arguments[@]}"
  touch "$env/.complete"
  say "done"
else
  say "ready: $env"
fi
if [ -z "$overlaid" ]; then
  printf '%s\n' "$env"
  exit
fi

wanted="$top/requirements/$overlaid.txt"
overlay="$root/$overlaid-py$version-$(sha256sum "$wanted" | cut -c1-12)"
if [ ! -e "$overlay/.complete" ]; then
  say "creating $overlay: $what"
  rm -rf "$overlay"
  "$env/bin/python" -m pip install --quiet --disable-pip-version-check --target "$overlay" -r "$wanted"
  touch "$overlay/.complete"
  say "done"
else
  say "ready: $overlay"
fi
printf '%s\n' "$overlay"
