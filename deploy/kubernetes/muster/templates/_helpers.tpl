{{- define "muster.name" -}}{{ .Release.Name | trunc 40 | trimSuffix "-" }}{{- end }}

{{- define "muster.labels" -}}
app.kubernetes.io/name: muster
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{- end }}

{{/* The selector labels of the pods of a component: (list $ "projector"). */}}
{{- define "muster.selector" -}}
app.kubernetes.io/instance: {{ (index . 0).Release.Name }}
app.kubernetes.io/component: {{ index . 1 }}
{{- end }}

{{- define "muster.image" -}}
{{- if .Values.image.digest -}}{{ .Values.image.repository }}@{{ .Values.image.digest }}
{{- else -}}{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}{{- end -}}
{{- end }}

{{- define "muster.secret" -}}{{ .Values.secrets.existing | default (printf "%s-secrets" (include "muster.name" .)) }}{{- end }}

{{/* The restricted security context of a container. */}}
{{- define "muster.hardened" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
runAsNonRoot: true
capabilities: {drop: [ALL]}
{{- end }}

{{/* The security context of a pod: (list $ uid). */}}
{{- define "muster.podSecurity" -}}
runAsNonRoot: true
runAsUser: {{ index . 1 }}
runAsGroup: {{ index . 1 }}
fsGroup: {{ index . 1 }}
fsGroupChangePolicy: OnRootMismatch
seccompProfile: {type: RuntimeDefault}
{{- end }}

{{/* Spreads replicas of a component over nodes and zones if possible: (list $ "projector"). */}}
{{- define "muster.spread" -}}
{{- $root := index . 0 }}
topologySpreadConstraints:
  {{- range $key := list "topology.kubernetes.io/zone" "kubernetes.io/hostname" }}
  - maxSkew: 1
    topologyKey: {{ $key }}
    whenUnsatisfiable: ScheduleAnyway
    labelSelector:
      matchLabels: {{- include "muster.selector" $ | nindent 8 }}
  {{- end }}
{{- with $root.Values.nodeSelector }}
nodeSelector: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $root.Values.tolerations }}
tolerations: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $root.Values.imagePullSecrets }}
imagePullSecrets: {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{- define "muster.brokers" -}}
{{- if .Values.kafka.bundled -}}
{{- $name := include "muster.name" . }}{{ $namespace := .Release.Namespace }}{{ $list := list }}
{{- range $i := until (int .Values.kafka.replicas) }}{{ $list = append $list (printf "%s-kafka-%d.%s-kafka.%s.svc:9092" $name (add1 $i) $name $namespace) }}{{ end }}
{{- join "," $list }}
{{- else -}}{{ join "," .Values.kafka.brokers }}{{- end -}}
{{- end }}

{{/* The names of the external servers for which muster has a client certificate. */}}
{{- define "muster.certified" -}}
{{- $names := list }}
{{- range $name := list "kafka" "clickhouse" "redis" }}
{{- $server := index $.Values $name }}
{{- if and (not $server.bundled) $server.clientCert.secret }}{{ $names = append $names $name }}{{ end }}
{{- end }}
{{- toJson $names }}
{{- end }}

{{/* The environment of muster's containers. */}}
{{- define "muster.env" -}}
{{- $secret := include "muster.secret" . }}
- {name: MUSTER_DATA_DIR, value: /data}
- {name: KAFKA_BROKERS, value: {{ include "muster.brokers" . | quote }}}
{{- if not .Values.kafka.bundled }}
{{- $secured := or .Values.kafka.tls (not (empty .Values.kafka.caSecret)) (not (empty .Values.kafka.clientCert.secret)) }}
- {name: KAFKA_TLS, value: {{ $secured | quote }}}
{{- if .Values.kafka.caSecret }}
- {name: KAFKA_TLS_CA_FILE, value: /etc/muster/kafka/ca.crt}
{{- end }}
{{- if .Values.kafka.sasl.mechanism }}
- {name: KAFKA_SASL_MECHANISM, value: {{ .Values.kafka.sasl.mechanism | quote }}}
- {name: KAFKA_SASL_USERNAME, value: {{ .Values.kafka.sasl.username | quote }}}
- name: KAFKA_SASL_PASSWORD
  valueFrom: {secretKeyRef: {name: {{ $secret }}, key: kafka-password}}
{{- end }}
{{- end }}
{{- range $name := include "muster.certified" . | fromJsonArray }}
{{- with (index $.Values $name).clientCert }}
- {name: {{ upper $name }}_TLS_CERT_FILE, value: /etc/muster/{{ $name }}-cert/{{ .cert }}}
- {name: {{ upper $name }}_TLS_KEY_FILE, value: /etc/muster/{{ $name }}-cert/{{ .key }}}
{{- end }}
{{- end }}
{{- if .Values.caSecret }}
# Read in addition to the image's file of authorities.
- {name: SSL_CERT_DIR, value: /etc/muster/ca}
{{- end }}
- name: CLICKHOUSE_DSN
  valueFrom: {secretKeyRef: {name: {{ $secret }}, key: clickhouse-dsn}}
- name: REDIS_URL
  valueFrom: {secretKeyRef: {name: {{ $secret }}, key: redis-url}}
{{- if .Values.openSearch.enabled }}
- name: OPENSEARCH_URL
  valueFrom: {secretKeyRef: {name: {{ $secret }}, key: opensearch-url}}
- {name: OPENSEARCH_INDEX_PREFIX, value: {{ .Values.openSearch.indexPrefix | quote }}}
- {name: OPENSEARCH_SHARDS, value: {{ .Values.openSearch.shards | quote }}}
- {name: OPENSEARCH_REPLICAS, value: {{ .Values.openSearch.replicas | quote }}}
{{- end }}
- name: MUSTER_SECRET_KEY
  valueFrom: {secretKeyRef: {name: {{ $secret }}, key: secret-key}}
{{- with .Values.monitoring.tracesEndpoint }}
- {name: OTEL_EXPORTER_OTLP_ENDPOINT, value: {{ . | quote }}}
{{- end }}
{{- end }}

{{/* The mounts and volumes of trusted authorities and client certificates in muster's containers. */}}
{{- define "muster.caMounts" -}}
{{- if .Values.caSecret }}
- {name: ca, mountPath: /etc/muster/ca, readOnly: true}
{{- end }}
{{- if and (not .Values.kafka.bundled) .Values.kafka.caSecret }}
- {name: kafka-ca, mountPath: /etc/muster/kafka, readOnly: true}
{{- end }}
{{- range $name := include "muster.certified" . | fromJsonArray }}
- {name: {{ $name }}-cert, mountPath: /etc/muster/{{ $name }}-cert, readOnly: true}
{{- end }}
{{- end }}

{{- define "muster.caVolumes" -}}
{{- with .Values.caSecret }}
- {name: ca, secret: {secretName: {{ . }}}}
{{- end }}
{{- if and (not .Values.kafka.bundled) .Values.kafka.caSecret }}
- {name: kafka-ca, secret: {secretName: {{ .Values.kafka.caSecret }}}}
{{- end }}
{{- range $name := include "muster.certified" . | fromJsonArray }}
- {name: {{ $name }}-cert, secret: {secretName: {{ (index $.Values $name).clientCert.secret }}}}
{{- end }}
{{- end }}

{{/* Three quarters of an amount of memory such as 1Gi, in bytes. */}}
{{- define "muster.threeQuarters" -}}
{{- $amount := . | toString }}
{{- if kindIs "float64" . }}{{ $amount = int64 . | toString }}{{ end }}
{{- $units := dict "" 1 "k" 1000 "M" 1000000 "G" 1000000000 "Ki" 1024 "Mi" 1048576 "Gi" 1073741824 }}
{{- $unit := regexReplaceAll "^[0-9]+([.][0-9]+)?" $amount "" }}
{{- if not (hasKey $units $unit) }}{{ fail (printf "redis.resources.limits.memory: %s is not an amount such as 1Gi" $amount) }}{{ end -}}
{{- mulf (trimSuffix $unit $amount | float64) (get $units $unit) 0.75 | int64 -}}
{{- end }}
