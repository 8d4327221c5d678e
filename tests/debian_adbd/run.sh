#!/bin/sh
# run.sh ROOT DATA ADDRESS PORT: adbd as Android's shell user, with DATA as its /data, in pid and mount namespaces of its
# own. Needs root. `adbd` is this script's child; when it ends, everything that it started ends.
set -eu
export ROOT="$1" DATA="$2" ADDRESS="$3" PORT="$4"
exec unshare --pid --mount --fork sh -euc '
mount --bind "$ROOT" "$ROOT" # so that df knows it
mount -t proc proc "$ROOT/proc"
mount --bind "$DATA" "$ROOT/data"
for device in null zero full random urandom tty; do mount --bind "/dev/$device" "$ROOT/dev/$device"; done
mount -t devpts -o newinstance,ptmxmode=0666,mode=0620 devpts "$ROOT/dev/pts"
exec chroot --userspec=2000:2000 "$ROOT" /bin/env -i PATH=/usr/bin HOME=/data/local/tmp TMPDIR=/data/local/tmp \
  LD_PRELOAD=/usr/lib/shim.so ADBD_ADDRESS="$ADDRESS" PROP_service_adb_listen_addrs="tcp:$PORT" \
  PROP_ro_product_name=debian PROP_ro_product_model=Debian13 PROP_ro_product_device=adbd LEVER_HOST_PYTHON=/usr/bin/python3 /usr/sbin/adbd
'
