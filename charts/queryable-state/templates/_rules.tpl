{{/* What the operator does to the objects of stores, verb by verb; never a wildcard. kopf lists and watches; the rest is the
     operator's own. A server-side apply is `patch`, and `create` where there is nothing yet. */}}
{{- define "qss.operatorRules" -}}
- apiGroups: [queryablestate.dev]
  resources: [queryablestatestores]
  verbs: [get, list, watch, patch] # patch: the finalizer
- apiGroups: [queryablestate.dev]
  resources: [queryablestatestores/status]
  verbs: [update]
- apiGroups: [queryablestate.dev]
  resources: [queryablestatestores/finalizers]
  verbs: [update] # Where owner references that block deletion are checked.
- apiGroups: [apps]
  resources: [statefulsets]
  verbs: [get, list, watch, create, patch, delete] # get: whether a name is taken.
- apiGroups: [""]
  resources: [pods]
  verbs: [list, watch, delete]
- apiGroups: [""]
  resources: [persistentvolumeclaims]
  verbs: [list, watch, patch, delete]
- apiGroups: [""]
  resources: [services, serviceaccounts]
  verbs: [get, list, watch, create, patch]
- apiGroups: [policy]
  resources: [poddisruptionbudgets]
  verbs: [get, list, watch, create, patch]
- apiGroups: [networking.k8s.io]
  resources: [networkpolicies]
  verbs: [get, list, watch, create, patch]
- apiGroups: [""]
  resources: [events]
  verbs: [create, patch, list] # list: only a StatefulSet's events say why the API server refuses its pods.
{{- with .Values.tls.secretNames }}
- apiGroups: [""]
  resources: [secrets]
  resourceNames: {{ toJson . }}
  verbs: [get] # Whom the pods of a store with a certificate are known by.
{{- end }}
{{- end -}}
