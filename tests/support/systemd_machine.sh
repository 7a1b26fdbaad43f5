#!/bin/sh
# Boots systemd on an overlay of /, in namespaces of its own:
#   systemd_machine.sh try
#   systemd_machine.sh boot FOLDER ROOT PYTHON TARGET memory|plain
# FOLDER/layers is a tmpfs, FOLDER/state becomes the state directory, FOLDER/paths lists folders
# that Python imports from. With `memory` its units can be limited in memory. Called in a mount namespace that is private.
set -eu

if [ "$1" = try ]; then
  mount -t proc proc /proc
  mount -t tmpfs tmpfs /tmp
  mkdir /tmp/u /tmp/w /tmp/r /tmp/c
  mount -t overlay overlay -o lowerdir=/,upperdir=/tmp/u,workdir=/tmp/w /tmp/r
  mount -t cgroup2 cgroup2 /tmp/c
  exit 0
fi

# Hierarchies of version 1, where this machine keeps the memory controller there.
old_memory() { [ "$1" = memory ] && grep -q '^[0-9]*:memory:' /proc/self/cgroup; }

if [ "$1" = boot ]; then
  # A control group of its own, so that what systemd makes there is below it.
  hierarchies=cgroup2
  if old_memory "$6"; then hierarchies="cgroup2 memory name=systemd"; fi
  own=stepkeeper-test-$$
  for kind in $hierarchies; do
    place=$2/layers/groups/$kind
    mkdir -p "$place"
    if [ "$kind" = cgroup2 ]; then
      mountpoint -q "$place" || mount -t cgroup2 cgroup2 "$place"
      [ "$6" != memory ] || echo +memory > "$place/cgroup.subtree_control" 2> /dev/null || true
    else
      mountpoint -q "$place" || mount -t cgroup -o "$kind" cgroup "$place"
      # Below where it is, as it would be limited by that.
      place=$place$(sed -n "s/^[0-9]*:$kind://p" /proc/self/cgroup)
    fi
    mkdir "$place/$own"
    echo 0 > "$place/$own/cgroup.procs"
    places="${places-} $place"
  done
  exec 3<&0
  unshare --pid --fork --kill-child --mount --ipc --uts --cgroup --net \
    sh "$0" inside "$2" "$3" "$4" "$5" "$6" < /dev/null 3<&- &
  child=$!
  # Whoever started this may be killed at any moment: its end of the pipe closes then.
  { read -r _ <&3 || true; kill -KILL "$child"; } > /dev/null 2>&1 &
  watcher=$!
  exec 3<&-
  status=0
  wait "$child" || status=$?
  kill "$watcher" 2> /dev/null || true
  wait "$watcher" || true
  for place in $places; do
    echo 0 > "$place/cgroup.procs"
    # The last processes of a killed PID 1 take a moment to leave it.
    for _ in 1 2 3 4 5 6 7 8 9 10; do
      if find "$place/$own" -depth -type d -exec rmdir {} + 2> /dev/null; then break; fi
      sleep 0.2
    done
  done
  exit "$status"
fi

folder=$2 root=$3 python=$4 target=$5 wants=$6
hostname stepkeeper-test
new=$folder/layers/root
mount -t overlay overlay -o "lowerdir=/,upperdir=$folder/layers/upper,workdir=$folder/layers/work" "$new"
fresh() { mkdir -p "$new/$2"; mount -t "$1" -o "$3" "$1" "$new/$2"; }
fresh proc proc rw
mount --bind -o ro "$new/proc/sys" "$new/proc/sys"
mount -o remount,bind,ro "$new/proc/sys"
fresh sysfs sys ro
if old_memory "$wants"; then
  fresh tmpfs sys/fs/cgroup mode=755
  fresh cgroup2 sys/fs/cgroup/unified rw
  fresh cgroup sys/fs/cgroup/systemd none,name=systemd
  fresh cgroup sys/fs/cgroup/memory memory
  # systemd mounts every hierarchy of version 1 that it hears of; it shall hear of this one.
  grep -E '^(#|memory)' /proc/cgroups > "$folder/controllers"
  mount --bind "$folder/controllers" "$new/proc/cgroups"
else
  fresh cgroup2 sys/fs/cgroup rw
fi
fresh tmpfs dev mode=755
for name in null zero full random urandom tty; do
  : > "$new/dev/$name"
  mount --bind "/dev/$name" "$new/dev/$name"
done
ln -s /proc/self/fd "$new/dev/fd"
ln -s pts/ptmx "$new/dev/ptmx"
fresh devpts dev/pts newinstance,ptmxmode=666,mode=620
fresh tmpfs dev/shm mode=1777
fresh tmpfs run mode=755
fresh tmpfs tmp mode=1777
fresh tmpfs var/tmp mode=1777

# The program, where the unit's user finds it: imports through links that outlive a moved clone.
home=$new/opt/stepkeeper
mkdir -p "$home/code" "$new/var/lib/stepkeeper"
mount --bind "$root" "$home/code"
mount --bind "$folder/state" "$new/var/lib/stepkeeper"
number=0
echo /opt/stepkeeper/code > "$folder/imports"
while read -r path; do
  number=$((number + 1))
  mkdir -p "$home/import-$number"
  mount --bind "$path" "$home/import-$number"
  echo "/opt/stepkeeper/import-$number" >> "$folder/imports"
done < "$folder/paths"
if [ ! -e "$home/venv" ]; then
  for version in venv-1 venv-2; do
    "$python" -m venv --without-pip "$home/$version"
    cp "$folder/imports" "$(echo "$home/$version"/lib/python3*/site-packages)/code.pth"
    printf '#!/opt/stepkeeper/%s/bin/python3 -I\nimport sys\nfrom supervisor.__main__ import main\nsys.exit(main())\n' \
      "$version" > "$home/$version/bin/stepkeeper"
    chmod 755 "$home/$version/bin/stepkeeper"
  done
  ln -s venv-1 "$home/venv"
  # The folders above the interpreter may be closed to others.
  above=${python%/*}
  while [ -n "$above" ]; do chmod o+x "$new$above"; above=${above%/*}; done
  # Nothing of this machine's own services, nor anything that would touch its devices.
  rm -rf "$new"/etc/systemd/system/*.wants
  : > "$new/etc/fstab"
  for unit in dev-hugepages.mount dev-mqueue.mount sys-fs-fuse-connections.mount \
    sys-kernel-config.mount sys-kernel-debug.mount sys-kernel-tracing.mount \
    proc-sys-fs-binfmt_misc.automount systemd-udevd.service systemd-udev-trigger.service \
    systemd-modules-load.service systemd-sysctl.service systemd-tmpfiles-setup-dev.service \
    kmod-static-nodes.service systemd-binfmt.service systemd-random-seed.service \
    systemd-timesyncd.service systemd-firstboot.service systemd-repart.service \
    systemd-update-utmp.service systemd-update-utmp-runlevel.service systemd-logind.service \
    getty.target systemd-user-sessions.service systemd-machine-id-commit.service \
    systemd-journald-audit.socket systemd-journal-flush.service; do
    ln -sf /dev/null "$new/etc/systemd/system/$unit"
  done
  mkdir -p "$new/etc/systemd/journald.conf.d"
  printf '[Journal]\nStorage=volatile\nRateLimitBurst=0\nForwardToConsole=no\nReadKMsg=no\n' \
    > "$new/etc/systemd/journald.conf.d/test.conf"
fi

cd "$new"
mkdir -p .old
pivot_root . .old
umount -l /.old
exec env -i container=stepkeeper-test PATH=/usr/sbin:/usr/bin:/sbin:/bin \
  /lib/systemd/systemd --unit="$target" --log-target=journal-or-kmsg --show-status=no
