/// Documents whose routes or listeners are wrong.
extension FaultCases {
    static let routes: [Case] = [
        (
            both
                + "routes:\n  - upstream: http://127.0.0.1:1\n  - {upstream: 'http://127.0.0.1:2', match: {path: /a}}\n",
            [
                "lanyard.yaml:7:5: missing key \"routes[0].name\"; each of several routes needs a name",
                "lanyard.yaml:8:5: missing key \"routes[1].name\"; each of several routes needs a name",
            ]
        ),
        (
            both
                + """
                routes:\n  - {name: a, upstream: 'http://127.0.0.1:1'}\n\
                  - {name: a, upstream: 'http://127.0.0.1:2', match: {path: /a}}\n
                """,
            [
                "lanyard.yaml:8:12: routes[1].name: \"a\" is taken at lanyard.yaml:7:12; choose another name"
            ]
        ),
        (
            both
                + """
                routes:\n  - {name: a, upstream: 'http://127.0.0.1:1', match: {path: /a}}\n\
                  - {name: b, upstream: 'http://127.0.0.1:2', match: {path: /a/}}\n
                """,
            [
                "lanyard.yaml:8:54: routes[1] matches the same requests as \"a\"; give them different paths, hosts or methods"
            ]
        ),
        (
            both + "routes:\n  - upstream: http://bob:hunter2@127.0.0.1:9000\n",
            [
                """
                lanyard.yaml:7:15: routes[0].upstream: a URL with user info; remove what stands before the @: a \
                password is not allowed here
                """
            ]
        ),
        (
            both + "routes:\n  - upstream: http://bob:hunter2/x@127.0.0.1:9000\n",
            [
                """
                lanyard.yaml:7:15: routes[0].upstream: what follows http:// is not a host, host:port, [v6] or \
                [v6]:port; write a URL such as http://127.0.0.1:9000
                """
            ]
        ),
        (
            both + "routes:\n  - upstream: http://127.0.0.1:9000//hunter2@x\n",
            [
                """
                lanyard.yaml:7:15: routes[0].upstream: its path is not a plain path; write it without //, . and .. \
                segments, backslashes and blanks; escape other characters
                """
            ]
        ),
        (
            both + "routes:\n  - upstream: http://127.0.0.1:9000/?a\n",
            [
                """
                lanyard.yaml:7:15: routes[0].upstream: \"http://127.0.0.1:9000/?a\" has a query or fragment; remove \
                everything from the ? or # on
                """
            ]
        ),
        (
            both + "routes:\n  - upstream: http://127.0.0.1:65536/x\n",
            [
                """
                lanyard.yaml:7:15: routes[0].upstream: port \"65536\" is out of range; write a port from 1 to 65535, \
                without a zero before it
                """
            ]
        ),
        (
            both + "routes:\n  - upstream: http://api.test:0\n",
            [
                """
                lanyard.yaml:7:15: routes[0].upstream: port \"0\" is out of range; write a port from 1 to 65535, \
                without a zero before it
                """
            ]
        ),
        (
            whole + "listeners:\n  - address: '[::1]:074000'\n",
            [
                """
                lanyard.yaml:9:14: listeners[0].address: port \"074000\" is out of range; write a port from 0 to \
                65535, without a zero before it
                """
            ]
        ),
        (
            both + "routes:\n  - upstream: 127.0.0.1:9000\n",
            [
                """
                lanyard.yaml:7:15: routes[0].upstream: \"127.0.0.1:9000\" has no scheme that can be used here; begin \
                with http:// or https://
                """
            ]
        ),
        (
            both + "routes:\n  - upstream: http://api.internal:8080\n",
            [
                """
                lanyard.yaml:7:15: routes[0].upstream: plain http would show tokens on the network path to \
                api.internal; add unsafe_plain: true if that way is safe
                """
            ]
        ),
        (
            both + "routes:\n  - {upstream: 'http://169.254.169.254', unsafe_plain: true}\n",
            [
                """
                lanyard.yaml:7:16: routes[0].upstream: 169.254.169.254 is an address of metadata services, \
                such as link-local ones; add allow_link_local: true if that is intended
                """
            ]
        ),
        (
            both
                + "routes:\n  - {upstream: 'http://[fe80::1]:80', unsafe_plain: true, allow_link_local: true}\n",
            [
                """
                lanyard.yaml:7:16: routes[0].upstream: "fe80::1" is valid at one network interface only, and none is \
                named; write its name behind the address, such as [fe80::1%25eth0]
                """
            ]
        ),
        (
            both + "routes:\n  - {upstream: 'http://127.0.0.1:1', match: {methods: [G ET]}}\n",
            [
                """
                lanyard.yaml:7:56: routes[0].match.methods: "G ET" is not a method; write such as GET, in capitals, \
                or leave the list out for every method
                """
            ]
        ),
        (
            both
                + "routes:\n  - {upstream: 'http://127.0.0.1:1', match: {methods: [get, FOO, foo]}, deny: [{path: /, methods: [Post]}]}\n",
            [
                """
                lanyard.yaml:7:56: routes[0].match.methods: "get" is not a method; write such as GET, in capitals, \
                or leave the list out for every method
                """,
                """
                lanyard.yaml:7:100: routes[0].deny[0].methods: "Post" is not a method; write such as GET, in capitals, \
                or leave the list out for every method
                """,
            ]
        ),
        (
            both
                + "routes:\n  - {upstream: 'http://127.0.0.1:1', deny: [{path: /a, methods: ['*']}, {path: /b, methods: [Any]}]}\n",
            [
                """
                lanyard.yaml:7:66: routes[0].deny[0].methods: "*" is not a method; write such as GET, in capitals, \
                or leave the list out for every method
                """,
                """
                lanyard.yaml:7:94: routes[0].deny[1].methods: "Any" is not a method; write such as GET, in capitals, \
                or leave the list out for every method
                """,
            ]
        ),
        (
            both + "routes:\n  - {upstream: 'http://127.0.0.1:1', upgrades: [H2C, Foo/2, websocket/, tls/1.2]}\n",
            [
                """
                lanyard.yaml:7:49: routes[0].upgrades: \"H2C\" is not a protocol that carries no further HTTP \
                requests; write such as websocket; h2c, HTTP and TLS would carry unchecked requests as the user
                """,
                """
                lanyard.yaml:7:61: routes[0].upgrades: \"websocket/\" is not a protocol that carries no further HTTP \
                requests; write such as websocket; h2c, HTTP and TLS would carry unchecked requests as the user
                """,
                """
                lanyard.yaml:7:73: routes[0].upgrades: \"tls/1.2\" is not a protocol that carries no further HTTP \
                requests; write such as websocket; h2c, HTTP and TLS would carry unchecked requests as the user
                """,
            ]
        ),
        (
            both + "routes:\n  - {upstream: 'http://127.0.0.1:1', match: {path: orders}}\n",
            [
                """
                lanyard.yaml:7:52: routes[0].match.path: \"orders\" is not a path that begins with /, without query, \
                escapes and dot segments; write such as /orders
                """
            ]
        ),
        (
            both + "routes:\n  - {upstream: 'http://127.0.0.1:1', match: {path: /a%2fb}}\n",
            [
                """
                lanyard.yaml:7:52: routes[0].match.path: \"/a%2fb\" is not a path that begins with /, without query, \
                escapes and dot segments; write such as /orders
                """
            ]
        ),
        (
            both + "routes:\n  - {upstream: 'http://127.0.0.1:1', match: {hosts: ['a:1']}}\n",
            [
                "lanyard.yaml:7:54: routes[0].match.hosts: \"a:1\" is not a host name without port; write such as orders.internal"
            ]
        ),
        (
            both + "routes:\n  - {upstream: 'http://127.0.0.1:1', inject: {header: Host, format: Bearer}}\n",
            [
                """
                lanyard.yaml:7:55: routes[0].inject.header: \"Host\" is not the name of a field that may be set; \
                choose a name that Lanyard does not use for framing, routing or itself, such as X-Tenant
                """,
                """
                lanyard.yaml:7:69: routes[0].inject.format: \"Bearer\" is not a field value with {token} in it once; \
                write such as \"Bearer {token}\"
                """,
            ]
        ),
        (
            both
                + """
                routes:\n  - {upstream: 'http://127.0.0.1:1', set_headers: {Content_Length: 1, X-A: \"a\\nb\", \
                x_a: 2, authorization: x}}\n
                """,
            [
                """
                lanyard.yaml:7:52: routes[0].set_headers: \"Content_Length\" is not the name of a field that may be \
                set; choose a name that Lanyard does not use for framing, routing or itself, such as X-Tenant
                """,
                "lanyard.yaml:7:76: routes[0].set_headers: \"a?b\" is not a field value; remove control characters, and blanks at the ends",
                "lanyard.yaml:7:84: routes[0].set_headers: x_a and X-A are one field; keep one of them",
                "lanyard.yaml:7:92: routes[0].set_headers: authorization is the field that carries the token; remove it",
            ]
        ),
        (
            both + "routes:\n  - {upstream: 'http://127.0.0.1:1', set_headers: {X-Id: a}, request_id_header: x_id}\n",
            [
                "lanyard.yaml:7:81: routes[0].request_id_header: x_id is set already, as X-Id; choose another field"
            ]
        ),
    ]

    static let listeners: [Case] = [
        (
            whole
                + """
                listeners:\n  - {address: '10.0.0.1:7400', tls: {certificate_file: ca.pem, key_file: token, client_ca_file: ca.pem}}\n\
                  - {address: 'unix:/run/d.sock', tls: {certificate_file: ca.pem, key_file: token}}\n
                """,
            []
        ),
        (
            whole + "listeners:\n  - {address: '127.0.0.1:7400', tls: {certificate_file: ca.pem}}\n",
            ["lanyard.yaml:9:38: missing key \"listeners[0].tls.key_file\"; add it: the path of a file"]
        ),
        (
            whole
                + """
                listeners:\n  - {address: '127.0.0.1:7400', tls: {certificate_file: token, key_file: gone, client_ca_file: token}}\n
                """,
            [
                """
                lanyard.yaml:9:57: listeners[0].tls.certificate_file: token holds no certificate in PEM, or a damaged one; \
                name a file with BEGIN CERTIFICATE in it; openssl x509 -inform der -in FILE makes PEM of DER
                """,
                "lanyard.yaml:9:74: listeners[0].tls.key_file: gone does not exist; put the file there, or correct the path",
                """
                lanyard.yaml:9:96: listeners[0].tls.client_ca_file: token holds no certificate in PEM, or a damaged one; \
                name a file with BEGIN CERTIFICATE in it; openssl x509 -inform der -in FILE makes PEM of DER
                """,
            ]
        ),
        (
            whole
                + """
                listeners:\n  - {address: '10.0.0.1:7400', tls: {certificate_file: ca.pem, key_file: token, client_names: [a]}}\n
                """,
            [
                """
                lanyard.yaml:9:15: listeners[0].address: other machines can reach 10.0.0.1:7400 and would act as the user; \
                bind 127.0.0.1:7400, add capability_file, or add unsafe: true if something \
                else prevents that
                """,
                """
                lanyard.yaml:9:95: listeners[0].tls.client_names: clients are asked for no certificate, so this restricts \
                no client; add client_ca_file, or remove client_names
                """,
            ]
        ),
        (
            whole + "listeners:\n  - {address: '0.0.0.0:7400', unsafe: true, allowed_hosts: ['*']}\n",
            [
                "lanyard.yaml:9:61: listeners[0].allowed_hosts: \"*\" is not host:port; write such as localhost:7400"
            ]
        ),
        (
            whole
                + "listeners:\n  - {address: '10.0.0.1:7400', capability_file: token, required_header: Lanyard-Request}\n",
            []
        ),
        (
            whole + "listeners:\n  - {address: '127.0.0.1:7400', required_header: Accept}\n",
            [
                """
                lanyard.yaml:9:50: listeners[0].required_header: \"Accept\" is not the name of a field that no browser \
                sends by itself; write such as Lanyard-Request
                """
            ]
        ),
        (
            whole + "listeners:\n  - {address: '127.0.0.1:7400', capability_file: missing}\n",
            [
                """
                warning: lanyard.yaml:9:50: listeners[0].capability_file: missing does not exist; every request on \
                it is refused until the file appears
                """
            ]
        ),
        (
            whole + "listeners:\n  - {address: 'unix:/run/l.sock', peers: {uids: [-1], gids: [0]}}\n",
            [
                "lanyard.yaml:9:50: listeners[0].peers.uids: \"-1\" is not a whole number from 0 to 4294967294; write digits only"
            ]
        ),
        (
            whole
                + """
                listeners:\n  - {address: '127.0.0.1:1', protocols: [http1], websocket_over_http2: true}\n\
                  - {address: '10.0.0.1:7400', unsafe: true, websocket_over_http2: true}\n\
                  - {address: 'unix:/run/l.sock', websocket_over_http2: yes}\n
                """,
            [
                """
                lanyard.yaml:9:72: listeners[0].websocket_over_http2: clients of this listener do not speak HTTP/2; \
                add http2 to protocols, or remove websocket_over_http2
                """,
                """
                lanyard.yaml:10:68: listeners[1].websocket_over_http2: clients of this listener do not speak HTTP/2; \
                add http2 to protocols, or remove websocket_over_http2
                """,
                """
                lanyard.yaml:11:57: listeners[2].websocket_over_http2: \"yes\" is not true or false; write true or false
                """,
            ]
        ),
        (
            whole
                + """
                listeners:\n  - {address: '127.0.0.1:1', protocols: [http2], websocket_over_http2: true}\n\
                  - {address: '10.0.0.1:7400', unsafe: true, protocols: [http1, http2], websocket_over_http2: true}\n\
                  - {address: '10.0.0.1:7401', unsafe: true, protocols: [http1], websocket_over_http2: false}\n\
                  - {address: 'unix:/run/l.sock', websocket_over_http2: true}\n
                """, []
        ),
        (
            whole + "listeners:\n  - address: 0.0.0.0:7400\n",
            [
                """
                lanyard.yaml:9:14: listeners[0].address: other machines can reach 0.0.0.0:7400 and would act as the \
                user; bind 127.0.0.1:7400, add capability_file, or add unsafe: true if something else prevents that
                """,
                """
                lanyard.yaml:9:14: listeners[0].address: 0.0.0.0:7400 is every address, so there is no default for \
                allowed_hosts; add allowed_hosts, such as [\"api.internal:7400\"]
                """,
            ]
        ),
        (
            whole + "listeners:\n  - {address: '[::]:7400', unsafe: true}\n",
            [
                """
                lanyard.yaml:9:15: listeners[0].address: [::]:7400 is every address, so there is no default for \
                allowed_hosts; add allowed_hosts, such as [\"api.internal:7400\"]
                """
            ]
        ),
        (
            whole + "listeners:\n  - {address: '10.0.0.1:7400'}\n",
            [
                """
                lanyard.yaml:9:15: listeners[0].address: other machines can reach 10.0.0.1:7400 and would act as the \
                user; bind 127.0.0.1:7400, add capability_file, or add unsafe: true if something else prevents that
                """
            ]
        ),
        (
            whole + "listeners:\n  - {address: 'example.com:7400'}\n",
            [
                """
                lanyard.yaml:9:15: listeners[0].address: \"example.com:7400\" names a host that would have to be \
                looked up; write the address itself, or localhost
                """
            ]
        ),
        (
            whole + "listeners:\n  - {address: 127.0.0.1}\n",
            [
                "lanyard.yaml:9:15: listeners[0].address: \"127.0.0.1\" has no port; write 127.0.0.1:7400"
            ]
        ),
        (
            whole + "listeners:\n  - {address: '127.0.0.1:7400'}\n  - {address: 'localhost:7400'}\n",
            [
                """
                lanyard.yaml:10:15: listeners: localhost:7400 and 127.0.0.1:7400 of listeners cannot both be bound; \
                choose another address or port
                """
            ]
        ),
        (
            whole + "listeners:\n  - {address: '[::1]:7400'}\n  - {address: '[0:0:0:0:0:0:0:1]:7400'}\n",
            [
                """
                lanyard.yaml:10:15: listeners: [::1]:7400 and [::1]:7400 of listeners cannot both be \
                bound; choose another address or port
                """
            ]
        ),
        (
            whole + "listeners:\n  - {address: '127.0.0.1:7401'}\n",
            [
                """
                lanyard.yaml:9:15: health: 127.0.0.1:7401 and 127.0.0.1:7401 of listeners cannot both be bound; \
                choose another address or port
                """
            ]
        ),
        (
            whole + "listeners: []\n",
            [
                "lanyard.yaml:8:12: listeners is empty; remove it for 127.0.0.1:7400, or add an address"
            ]
        ),
        (
            whole + "listeners:\n  - {address: '127.0.0.1:7400', allowed_origins: ['https://a.example/']}\n",
            [
                """
                lanyard.yaml:9:51: listeners[0].allowed_origins: \"https://a.example/\" is not an origin; write such \
                as https://app.example.com, without a path
                """
            ]
        ),
    ]
}
