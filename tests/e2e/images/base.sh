# shellcheck shell=bash
# The base image: a minimal Debian with its Python, made by debootstrap, since there is no registry to pull one from.
# This file is the recipe: its digest is the image's tag, so what is made once stays until the recipe changes.

DEBIAN_SUITE=bookworm

base_image() { echo "$REPOSITORY/base:$(sha256sum < "$HERE/base.sh" | cut -c1-16)"; }

build_base() (
  local mirror root=$WORK/base/root
  ! buildah inspect --type image "$(base_image)" > /dev/null 2>&1 || return 0
  echo "making the base image (two minutes, once)" >&2
  rm -rf "$WORK/base"
  mkdir -p "$root"
  mirror=${DEBIAN_MIRROR:-$(apt-get indextargets --format '$(SITE) $(CODENAME)' | awk "\$2 == \"$DEBIAN_SUITE\" {print \$1; exit}")}
  debootstrap --variant=minbase --include=ca-certificates,python3,python3-pip,python3-venv $DEBIAN_SUITE "$root" ${mirror:+"$mirror"} > "$WORK/base/debootstrap.log" 2>&1 \
    || { tail -5 "$WORK/base/debootstrap.log" >&2; fail "debootstrap failed; another mirror can be given as DEBIAN_MIRROR"; }
  cd "$root"
  # As in the base that it stands for: pip installs where it is told, and `python` is there.
  rm -f usr/lib/python3*/EXTERNALLY-MANAGED
  ln -sf ../../bin/python3 usr/local/bin/python3
  ln -sf ../../bin/python3 usr/local/bin/python
  ln -sf ../../bin/pip3 usr/local/bin/pip
  rm -rf var/cache/apt/archives/*.deb var/lib/apt/lists/* usr/share/{doc,man,locale,info}/* var/log/apt etc/hostname
  find usr/lib/python3* -name __pycache__ -prune -exec rm -rf {} +
  : > etc/resolv.conf
  cd ..
  tar --directory root --numeric-owner --exclude='./dev/*' --create --file root.tar .
  printf '%s\n' 'FROM scratch' 'ADD root.tar /' \
    'ENV PATH=/usr/local/bin:/usr/local/sbin:/usr/bin:/usr/sbin:/bin:/sbin LANG=C.UTF-8 PIP_ROOT_USER_ACTION=ignore' 'CMD ["python3"]' > Dockerfile
  buildah bud --quiet --pull-never --format docker --tag "$(base_image)" . > /dev/null
  rm -rf "$WORK/base"
)
