{{/*
Fails for a number or a truth value where lanyard.yaml has text: Helm has read 0660 as 432 then, and 123456789012345678901 as 1.2e+20. The
lists are the keys of numbers and of truth values; a test compares them with the program.
*/}}
{{- define "lanyard.checkTexts" -}}
{{- $numbers := list "connections_max" "connections_per_peer_max" "gids" "handshakes_max" "header_fields_max"
    "keepalive_probes_max" "login_required_status" "parked_requests_max" "per_hour_max" "reauthenticate_on"
    "requests_max" "requests_per_connection_max" "response_header_fields_max" "shards" "streams_max" "uids" -}}
{{- $truths := list "access" "allow_link_local" "exit_on_refusal" "exit_on_unreachable" "exit_zero_on_sigterm"
    "expose_tokens" "last_try" "logout" "memory" "metrics_per_route" "metrics_per_user" "unsafe" "unsafe_plain"
    "unsafe_skip_verify" "websocket_over_http2" -}}
{{- $key := .key -}}
{{- if kindIs "map" .value -}}
{{- range $name, $value := .value }}{{ include "lanyard.checkTexts" (dict "key" $name "value" $value) }}{{ end -}}
{{- else if kindIs "slice" .value -}}
{{- range .value }}{{ include "lanyard.checkTexts" (dict "key" $key "value" .) }}{{ end -}}
{{- else if kindIs "bool" .value -}}
{{- if not (has $key $truths) -}}
{{- fail (printf "lanyard.config: %s is a truth value for Helm, as are yes, no, on and off: write its text in quotes" $key) -}}
{{- end -}}
{{- else if not (or (kindIs "string" .value) (kindIs "invalid" .value)) -}}
{{- if not (has $key $numbers) -}}
{{- fail (printf "lanyard.config: %s is a number for Helm: write its text in quotes, such as \"0660\"" $key) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/*
Removes the keys whose value is null: further values take keys of a chart's own away by it.
*/}}
{{- define "lanyard.dropNulls" -}}
{{- range $name, $value := . -}}
{{- if kindIs "invalid" $value }}{{ $_ := unset $ $name }}{{ end -}}
{{- if kindIs "map" $value }}{{ include "lanyard.dropNulls" $value }}{{ end -}}
{{- end -}}
{{- end -}}

{{/*
The ConfigMap with lanyard.yaml; a manifest of its own. `routes` are required, as the program demands them.
*/}}
{{- define "lanyard.configMap" -}}
{{- $config := deepCopy .Values.lanyard.config -}}
{{- include "lanyard.dropNulls" $config -}}
{{- if not $config.routes }}{{ fail "lanyard.config.routes is required: lanyard.yaml needs at least one route" }}{{ end -}}
{{- if hasKey $config "health" }}{{ fail "lanyard.config.health is set by the template: leave it out" }}{{ end -}}
{{- include "lanyard.checkTexts" (dict "key" "config" "value" $config) -}}
apiVersion: v1
kind: ConfigMap
metadata:
  name: {{ .Release.Name }}-lanyard
data:
  lanyard.yaml: |
    {{- toYaml $config | nindent 4 }}
{{- end -}}

{{/*
Annotations of the pod: a changed configuration makes new pods.
*/}}
{{- define "lanyard.podAnnotations" -}}
checksum/lanyard: {{ toYaml .Values.lanyard.config | sha256sum }}
{{- end -}}

{{/*
The pod's security context. Not `fsGroupChangePolicy: Always`: it opens the store to the group at each start, and Lanyard refuses such a
store.
*/}}
{{- define "lanyard.podSecurityContext" -}}
runAsNonRoot: true
fsGroup: 65532
fsGroupChangePolicy: OnRootMismatch
seccompProfile: {type: RuntimeDefault}
{{- end -}}

{{/*
The sidecar, an element of `initContainers`: up before the other containers start, stopped after they have ended.
*/}}
{{- define "lanyard.sidecar" -}}
{{- $lanyard := .Values.lanyard -}}
- name: lanyard
  image: {{ printf "%s:%s" $lanyard.image.repository (toString $lanyard.image.tag) | quote }}
  imagePullPolicy: {{ $lanyard.image.pullPolicy }}
  restartPolicy: Always
  args: [run, --config, /etc/lanyard/config/lanyard.yaml]
  env:
    # Probes come from the node. An IPv6 address needs brackets.
    - name: POD_IP
      valueFrom: {fieldRef: {fieldPath: status.podIP}}
    - {name: LANYARD_HEALTH_ADDRESS, value: "$(POD_IP):7401"}
  ports:
    - {name: health, containerPort: 7401}
  startupProbe:
    httpGet: {path: /startupz, port: health}
    periodSeconds: 1
    failureThreshold: {{ $lanyard.startupSeconds }}
  livenessProbe:
    httpGet: {path: /livez, port: health}
    periodSeconds: 10
    failureThreshold: 3
  {{- if $lanyard.readiness }}
  readinessProbe:
    httpGet: {path: /readyz, port: health}
    periodSeconds: 5
    failureThreshold: 2
  {{- end }}
  resources:
    {{- toYaml $lanyard.resources | nindent 4 }}
  securityContext:
    runAsNonRoot: true
    runAsUser: 65532
    runAsGroup: 65532
    readOnlyRootFilesystem: true
    allowPrivilegeEscalation: false
    capabilities: {drop: [ALL]}
  volumeMounts:
    - {name: lanyard-config, mountPath: /etc/lanyard/config, readOnly: true}
    # Not by subPath, whose files never change: a new secret is used without a restart.
    - {name: lanyard-secrets, mountPath: /etc/lanyard/secrets, readOnly: true}
    - {name: lanyard-admin, mountPath: /run/lanyard/admin}
    {{- if $lanyard.store.enabled }}
    - {name: {{ $lanyard.store.volume }}, mountPath: /var/lib/lanyard}
    {{- end }}
{{- end -}}

{{/*
The sidecar's volumes, elements of `volumes`. The one of the store is the pod's own.
*/}}
{{- define "lanyard.volumes" -}}
{{- $lanyard := .Values.lanyard -}}
- name: lanyard-config
  configMap: {name: {{ .Release.Name }}-lanyard}
- name: lanyard-secrets
  projected:
    defaultMode: 0440
    sources:
      - secret:
          name: {{ $lanyard.secret.name }}
          items:
            {{- range $lanyard.secret.keys }}
            - {key: {{ . | quote }}, path: {{ . | quote }}}
            {{- end }}
- name: lanyard-admin
  emptyDir: {medium: Memory, sizeLimit: 1Mi}
{{- end -}}
