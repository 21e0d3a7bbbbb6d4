#!/bin/sh
# sh gpu_host.sh FOLDER NAME COMMAND...: run a command on a stand-in for a host with NVIDIA's kernel module.
# FOLDER/proc becomes /proc/driver, each line of FOLDER/nodes a device node (/dev/null in truth), NAME the host's name.
# Needs `unshare -Urmu` around it; nothing of it is seen outside.
set -e
folder=$1 name=$2
shift 2
"$STAND_IN_PYTHON" -c 'import socket, sys; socket.sethostname(sys.argv[1])' "$name"
mount --bind "$folder/proc" /proc/driver
mount -t tmpfs none "$folder/dev"
ln -s /proc/self/fd "$folder/dev/fd"
mkdir "$folder/dev/shm"
mount --bind /dev/shm "$folder/dev/shm"
for node in null zero full random urandom tty; do
	: >"$folder/dev/$node"
	mount --bind "/dev/$node" "$folder/dev/$node"
done
while read -r node; do
	: >"$folder/dev/$node"
	mount --bind /dev/null "$folder/dev/$node"
done <"$folder/nodes"
mount --rbind "$folder/dev" /dev
exec "$@"
