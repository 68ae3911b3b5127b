{{/* Kubernetes gives a CronJob 52 characters, "-backup" among them. */}}
{{- define "chainify.name" -}}{{ .Release.Name | trunc 45 | trimSuffix "-" }}{{- end }}

{{- define "chainify.selector" -}}
app.kubernetes.io/name: chainify
app.kubernetes.io/instance: {{ .Release.Name | quote }}
{{- end }}

{{- define "chainify.labels" -}}
{{ include "chainify.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
chainify.io/organisation: {{ .Values.organisation | trimAll "-_" | quote }}
{{- end }}

{{/* What the schema cannot say: values that are needed, with where they come from. */}}
{{- define "chainify.check" -}}
{{- if not (regexMatch "^[a-z][-a-z0-9]*$" .Release.Name) -}}{{ fail (printf "release %q: services are named after it, with lower-case letters, digits and \"-\", a letter first" .Release.Name) }}{{- end -}}
{{- $_ := required "organisation: the name this organisation has in the genesis" .Values.organisation -}}
{{- $_ := required "genesis: the consortium's genesis.json (--set-file genesis=genesis.json; \"chainify genesis\" makes it)" .Values.genesis -}}
{{- $_ := required "keysSecret: a Secret with gateway_key.json, node_key.json and priv_validator_key.json, or with node_key.json and a key holder (docs/deploy.md)" .Values.keysSecret -}}
{{- $genesis := fromJson .Values.genesis -}}
{{- if or (hasKey $genesis "Error") (not $genesis.app_state) -}}{{ fail "genesis: this is no genesis.json as \"chainify genesis\" makes it" }}{{- end -}}
{{- $names := list -}}{{- $orders := false -}}
{{- range $genesis.app_state.organisations -}}
{{- $names = append $names .name -}}{{- if eq .name $.Values.organisation -}}{{- $orders = .ordering_only -}}{{- end -}}
{{- end -}}
{{- if not (has .Values.organisation $names) -}}{{ fail (printf "organisation: %q is not in the genesis, which has %s" .Values.organisation (join ", " $names)) }}{{- end -}}
{{- if and $orders .Values.postgres.enabled -}}{{ fail (printf "postgres.enabled: %q only orders by the genesis, it has no database" .Values.organisation) }}{{- end -}}
{{- if .Values.postgres.enabled -}}
{{- $_ := required "postgres.passwordSecret: a Secret with key password, for the superuser postgres" .Values.postgres.passwordSecret -}}
{{- if .Values.postgres.external.dsn -}}{{ fail "postgres.external.dsn: the chart's own PostgreSQL is enabled; set postgres.enabled=false for an external one" }}{{- end -}}
{{- else if .Values.backup.enabled -}}{{ fail "backup.enabled: an external database is backed up where it runs" }}
{{- else if and (not $orders) (not .Values.postgres.external.dsn) -}}{{ fail "postgres.external.dsn: with postgres.enabled=false the organisation's database has to be named" }}
{{- end -}}
{{- if regexMatch "(?m)^\\s*\\[retention\\]" .Values.node.extraConfig -}}{{ fail "node.extraConfig: settings of [retention] are values of node.retention" }}{{- end -}}
{{- with .Values.keyHolder -}}{{- if .image -}}
{{- $_ := required "keyHolder.module: the path of the vendor's PKCS#11 library in keyHolder.image" .module -}}
{{- $_ := required "keyHolder.token: the label of the token" .token -}}
{{- $_ := required "keyHolder.pinSecret: a Secret with key pin" .pinSecret -}}
{{- if .volume -}}{{ fail "keyHolder: image and volume name two key holders, set one of them" }}{{- end -}}
{{- end -}}{{- end -}}
{{- if and .Values.anchor.url (not .Values.anchor.credentialsSecret) -}}{{ fail "anchor.credentialsSecret: a Secret with access_key_id and secret_access_key, with which requests to the store are signed" }}{{- end -}}
{{- if and .Values.analytics.enabled (not .Values.postgres.enabled) -}}{{ fail "analytics.enabled: an external database has its worker where it runs" }}{{- end -}}
{{- with .Values.http -}}{{- if .enabled -}}
{{- $_ := required "http.tlsSecret: a Secret with tls.crt and tls.key; the node speaks nothing but TLS to who is not in its pod" .tlsSecret -}}
{{- if not (or .tokensSecret .clientCASecret) -}}{{ fail "http: nobody may ask: http.tokensSecret, or http.clientCASecret with http.tlsClients, is needed" }}{{- end -}}
{{- if ne (empty .clientCASecret) (empty .tlsClients) -}}{{ fail "http: clientCASecret and tlsClients go together" }}{{- end -}}
{{- if $orders -}}{{ fail (printf "http.enabled: %q only orders by the genesis, its node takes no transactions" $.Values.organisation) }}{{- end -}}
{{- end -}}{{- end -}}
{{- end }}

{{- define "chainify.dsn" -}}
{{- if .Values.postgres.enabled -}}
host=/run/postgresql dbname={{ .Values.postgres.database }} user=chainify_login
{{- else -}}{{ .Values.postgres.external.dsn }}{{- end -}}
{{- end }}

{{/* The Secrets of the HTTP interface, each in a directory of its own: mounted so, changes of them reach the node. */}}
{{- define "chainify.http" -}}
{{- with .Values.http }}{{- if .enabled }}
- {name: tls, secret: {{ .tlsSecret | quote }}, items: [{key: tls.crt, path: tls.crt}, {key: tls.key, path: tls.key}]}
{{- if .tokensSecret }}
- {name: tokens, secret: {{ .tokensSecret | quote }}, items: [{key: tokens.json, path: tokens.json}]}
{{- end }}
{{- if .clientCASecret }}
- {name: clients, secret: {{ .clientCASecret | quote }}, items: [{key: ca.crt, path: ca.crt}]}
{{- end }}
{{- else }}[]{{ end }}{{ end }}
{{- end }}

{{/* An image by its value: below the registry, unless it names one itself. */}}
{{- define "chainify.image" -}}
{{- $name := index . 1 -}}
{{- if not (contains "/" (splitList "@" $name | first)) -}}
{{ required (printf "registry: where the image %q is, as registry.acme.example/chainify (docs/deploy.md, \"Images\")" $name) (index . 0).Values.registry }}/{{ end -}}
{{ $name }}
{{- end }}

{{/* Not empty: a key holder has the keys. */}}
{{- define "chainify.holder" -}}
{{- if or .Values.keyHolder.image .Values.keyHolder.volume -}}holder{{- end -}}
{{- end }}

{{- define "chainify.restricted" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: {drop: [ALL]}
{{- end }}

{{- define "chainify.claim" -}}
accessModes: [ReadWriteOnce]
{{- with .className }}
storageClassName: {{ . | quote }}
{{- end }}
resources: {requests: {storage: {{ .size }}}}
{{- end }}
