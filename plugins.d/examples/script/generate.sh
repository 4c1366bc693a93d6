#!/bin/sh
# Prints a ConfigMap that tells who ran it, where, and after what.
set -eu
cat <<MANIFEST
apiVersion: v1
kind: ConfigMap
metadata:
  name: ${ARGOCD_APP_NAME}
data:
  color: "${PARAM_COLOR:-blue}"
  prepared: "$(cat prepared.txt)"
  uid: "$(id -u)"
MANIFEST
