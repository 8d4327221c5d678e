#!/usr/bin/env bash
# build_vulkan.sh FOLDER VERSION: ggml's Vulkan back end for the installed ggml-python VERSION, as FOLDER/libggml-vulkan.so.
# Some 5 minutes of computing. Needs cmake, ninja, a C++ compiler, glslc, libvulkan-dev, spirv-headers, and apt for newer headers.
set -euo pipefail
folder=$(mkdir -p "$1" && cd "$1" && pwd) version=$2
work=$folder/build
mkdir -p "$work/apt/lists/partial" "$work/apt/cache/archives/partial"
cd "$work"

# Debian 12's Vulkan headers are too old for ggml; Debian 13's, from the same mirror, unpacked aside, are not.
mirror=$(find /etc/apt -name "*.list" -o -name "*.sources" | xargs grep -hoE "https?://[^ ]+/debian/?( |$)" | head -n 1 | tr -d " ")
echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $mirror trixie main" >apt/sources.list
options=(-o Dir::Etc::sourcelist="$work/apt/sources.list" -o Dir::Etc::sourceparts=/dev/null -o Dir::State::lists="$work/apt/lists"
  -o Dir::Cache="$work/apt/cache" -o Dir::State::status=/dev/null -o APT::Sandbox::User=root)
apt-get -qq "${options[@]}" update
apt-get -qq "${options[@]}" download libvulkan-dev
dpkg -x libvulkan-dev_*.deb headers

"${PYTHON:-python3}" -m pip download -q --no-deps --no-binary ggml-python "ggml-python==$version"
tar -xzf ggml_python-*.tar.gz
# Only the back end: it is loaded into the ggml that is installed, and asks for libggml-base.so by that very name if it is
# linked from the build's root. Ninja does so; make would have it ask for ../../../../libggml-base.so.
cmake -S ggml_python-*/ -B out -G Ninja -DCMAKE_BUILD_TYPE=Release -DSKBUILD_PROJECT_NAME=ggml_python -DSKBUILD_PROJECT_VERSION="$version" \
  -DSKBUILD_STATE=wheel -DSKBUILD_PLATLIB_DIR="$work/unused" -DGGML_BACKEND_DL=ON -DGGML_NATIVE=OFF -DGGML_VULKAN=ON \
  -DVulkan_INCLUDE_DIR="$work/headers/usr/include" >cmake.log
cmake --build out --target ggml-vulkan -j "$(nproc)" >>cmake.log
find out -name libggml-vulkan.so -exec cp {} "$folder/libggml-vulkan.so.new" \;
mv "$folder/libggml-vulkan.so.new" "$folder/libggml-vulkan.so"
rm -rf "$work"
