# Boots Debian's systemd as the first process of its own namespaces: systemd_box.sh FOLDER. Needs root.
# FOLDER has what it sees as etc, opt, run, units and lib; the rest of the machine it sees as it is, but cannot reach
# its network, processes, cgroups and temporary files.
set -eu
folder=$1

if [ "${2:-}" != inside ]; then
  mount --make-rprivate /
  mount -t cgroup2 cgroup2 "$folder/cgroup"
  box=$folder/cgroup/box-$$
  mkdir "$box"
  echo $$ >"$box/cgroup.procs"
  status=0
  unshare --pid --fork --kill-child --mount --net --uts --ipc --cgroup sh "$0" "$folder" inside || status=$?
  echo $$ >"$folder/cgroup/cgroup.procs"
  find "$box" -depth -type d -exec rmdir {} +
  exit $status
fi

mount -t proc proc /proc
umount -R -l /sys/fs/cgroup 2>/dev/null || true
mount -t cgroup2 cgroup2 /sys/fs/cgroup
for bound in "$folder"/opt/*; do
  [ ! -L "$bound/from" ] || mount --bind "$(readlink "$bound/from")" "$bound"
done
mount --rbind "$folder/opt" /opt
mount --bind "$folder/units" /usr/lib/systemd/system
mount --bind "$folder/lib" /var/lib
mount --bind "$folder/run" /run
mount --bind "$folder/etc" /etc
[ ! -d /usr/lib/systemd/system-generators ] || mount -t tmpfs tmpfs /usr/lib/systemd/system-generators
mount -t tmpfs tmpfs /var/tmp
mount -t tmpfs tmpfs /tmp
mount --make-rshared /  # as a real boot has it: credentials come by a mount
container=lxc exec /lib/systemd/systemd --unit=multi-user.target --log-target=console --show-status=0
