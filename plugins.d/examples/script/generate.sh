#!/bin/sh
# Prints a ConfigMap with the UID that ran this script and the output of init.
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
