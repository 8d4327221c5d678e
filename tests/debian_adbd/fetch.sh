#!/bin/sh
# fetch.sh DIR: Debian 13's adbd, adb and Android's userland (mksh, toybox), and a Python as a runtime bundle has one, with
# all that they need, unpacked in DIR/root; DIR/adb runs its adb. Comes through an apt configuration of its own from the mirror that this machine uses;
# nothing is installed. Run again it does nothing.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
mkdir -p "$1"
dir=$(cd "$1" && pwd)
packages="adbd adb mksh toybox python3"
[ "$(cat "$dir/ready" 2>/dev/null)" = "$packages" ] && exit
rm -rf "$dir/ready" "$dir/apt" "$dir/root"
mkdir -p "$dir/apt/lists/partial" "$dir/apt/cache/archives/partial" "$dir/root"

mirror() { apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' 'Origin: Debian' | grep -v -- '-security' | head -1; }
[ -n "$(mirror)" ] || apt-get update -qq # a bare machine has no lists
cat >"$dir/apt/sources.list" <<END
deb [arch=$(dpkg --print-architecture) signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $(mirror) trixie main
END
cat >"$dir/apt/apt.conf" <<END
Dir::State "$dir/apt";
Dir::State::lists "lists";
Dir::State::status "/dev/null";
Dir::Cache "$dir/apt/cache";
Dir::Etc::sourcelist "$dir/apt/sources.list";
Dir::Etc::sourceparts "/dev/null";
Dir::Etc::preferencesparts "/dev/null";
Acquire::Languages "none";
APT::Sandbox::User "root";
END
export APT_CONFIG="$dir/apt/apt.conf"
apt-get update -qq
apt-get install -qq -y --no-install-recommends --download-only $packages >/dev/null
for package in "$dir"/apt/cache/archives/*.deb; do dpkg -x "$package" "$dir/root"; done

cd "$dir/root"
for folder in bin lib lib64 sbin; do [ ! -d "usr/$folder" ] || ln -sfn "usr/$folder" "$folder"; done
libraries=$(echo usr/lib/*-linux-gnu)
loader=$(ls usr/lib64/ld-linux-*.so.2 usr/lib/ld-linux-*.so.1 2>/dev/null | head -1)
ln -sfn mksh usr/bin/sh # Android's userland
for tool in $("$loader" --library-path "$libraries" usr/bin/toybox); do
  [ -e "usr/bin/$tool" ] || ln -s toybox "usr/bin/$tool"
done
mkdir -p data dev/pts etc proc
for device in null zero full random urandom tty; do : >"dev/$device"; done
ln -sfn pts/ptmx dev/ptmx
echo 'shell:x:2000:2000:shell:/data/local/tmp:/bin/sh' >etc/passwd
echo 'shell:x:2000:' >etc/group
g++ -shared -fPIC -O2 -o usr/lib/shim.so "$here/shim.cpp" -ldl

cat >"$dir/adb" <<END
#!/bin/sh
exec $dir/root/$loader --library-path $dir/root/$libraries:$dir/root/$libraries/android $dir/root/usr/lib/android-sdk/platform-tools/adb "\$@"
END
chmod +x "$dir/adb"
rm -rf "$dir/apt"
echo "$packages" >"$dir/ready"
