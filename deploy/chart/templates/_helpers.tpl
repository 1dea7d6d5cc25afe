{{- define "pkray.name" -}}
{{ .Release.Name | trunc 40 | trimSuffix "-" }}
{{- end }}

{{- define "pkray.labels" -}}
app.kubernetes.io/name: pkray
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end }}

{{- define "pkray.selector" -}}
app.kubernetes.io/instance: {{ .Release.Name }}
pkray.io/part: ray
{{- end }}

{{- define "pkray.image" -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end }}

{{- define "pkray.redis" -}}
{{ .Values.redis.address | default (printf "%s-redis:6379" (include "pkray.name" .)) }}
{{- end }}

{{- define "pkray.env" -}}
- name: PKRAY_SETTINGS
  value: /etc/pkray/pkray.toml
- name: PKRAY_RAY # commands and jobs go through the service
  value: auto
- name: PKRAY_LOCAL_DIRECTORY
  value: /var/lib/pkray
- name: PKRAY_LOG_FORMAT
  value: {{ .Values.logs.format }}
{{- if .Values.tracing.endpoint }}
- name: PKRAY_TRACING
  value: otlp
- name: OTEL_EXPORTER_OTLP_ENDPOINT
  value: {{ .Values.tracing.endpoint | quote }}
- name: OTEL_SERVICE_NAME
  value: {{ include "pkray.name" . | quote }}
- name: OTEL_TRACES_SAMPLER
  value: parentbased_traceidratio
- name: OTEL_TRACES_SAMPLER_ARG
  value: {{ .Values.tracing.ratio | quote }}
{{- end }}
- name: POD_IP
  valueFrom: { fieldRef: { fieldPath: status.podIP } }
{{- with .Values.auth.secret }}
- name: RAY_AUTH_MODE
  value: token
- name: RAY_AUTH_TOKEN
  valueFrom: { secretKeyRef: { name: {{ .name }}, key: {{ .key }} } }
{{- end }}
{{- end }}

{{- define "pkray.mounts" -}}
- { name: settings, mountPath: /etc/pkray, readOnly: true }
- { name: disk, mountPath: /var/lib/pkray }
- { name: shared-mem, mountPath: /dev/shm }
{{- if .Values.secrets }}
- { name: secrets, mountPath: /run/secrets/pkray, readOnly: true }
{{- end }}
{{- end }}

{{- define "pkray.volumes" -}}
- name: settings
  configMap: { name: {{ include "pkray.name" . }} }
{{- if .Values.secrets }}
- name: secrets
  projected:
    defaultMode: 0440
    sources:
      {{- range $setting, $secret := .Values.secrets }}
      - secret:
          name: {{ $secret.name }}
          items: [{ key: {{ $secret.key }}, path: {{ $setting }} }]
      {{- end }}
{{- end }}
{{- end }}

{{- define "pkray.pod" -}}
serviceAccountName: {{ .Values.serviceAccountName }}
automountServiceAccountToken: false
enableServiceLinks: false # they are variables PKRAY_…, which would be taken for settings
securityContext:
  runAsNonRoot: true
  runAsUser: 1000
  runAsGroup: 1000
  fsGroup: 1000
  seccompProfile: { type: RuntimeDefault }
{{- with .Values.imagePullSecrets }}
imagePullSecrets: {{ toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{- define "pkray.container" -}}
image: {{ include "pkray.image" . }}
imagePullPolicy: {{ .Values.image.pullPolicy }}
securityContext:
  allowPrivilegeEscalation: false
  capabilities: { drop: [ALL] }
{{- end }}

{{- define "pkray.probe" -}}
exec:
  command:
    - python
    - -c
    - |
      import sys, urllib.request
      for url in sys.argv[1:]:
          with urllib.request.urlopen(url, timeout=4) as answer:
              assert b"success" in answer.read(), url
    - http://127.0.0.1:52365/api/local_raylet_healthz
{{- range . }}
    - {{ . }}
{{- end }}
timeoutSeconds: 10
{{- end }}
