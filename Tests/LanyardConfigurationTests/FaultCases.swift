/// Documents and what is wrong with them.
enum FaultCases {
    /// A document and its faults; what is not a plain fault begins with its severity.
    typealias Case = (document: String, diagnostics: [String])

    static let identities = Loading.identities
    static let users = Loading.users
    static let upstream = Loading.routes
    static let both = Loading.identities + Loading.users
    static let whole = Loading.whole
    static let app = "identities:\n  app:\n    app_services: {app_id: a, base_url: http://127.0.0.1:1}\n"

    /// A configuration whose identity service has these keys; its user logs in with what it has.
    private static func plainService(_ keys: String) -> String {
        let login = keys.hasPrefix("oauth2") ? "jwt_bearer: {assertion_file: token}" : "anonymous: {}"
        return "identities:\n  demo:\n    \(keys)\nusers: {alice: {identity: demo, login: {\(login)}}}\n" + upstream
    }

    static let keys: [Case] = [
        (
            whole + "limit: {}\n",
            [
                "lanyard.yaml:8:1: unknown key \"limit\"; did you mean \"limits\"?"
            ]
        ),
        (
            whole + "app_id: x\n",
            [
                "lanyard.yaml:8:1: unknown key \"app_id\"; it belongs below identities.*.app_services or "
                    + "identities.*.github_app: check the indentation, and whether a line above is missing"
            ]
        ),
        (
            both + "routes:\n  - upsteam: http://127.0.0.1:9000\n",
            [
                "lanyard.yaml:7:5: unknown key \"upsteam\" in routes[0]; did you mean \"upstream\"?"
            ]
        ),
        (
            "- a\n",
            [
                "lanyard.yaml:1:1: expected a mapping, found a list; begin with a key such as listeners:"
            ]
        ),
        (
            "",
            [
                """
                lanyard.yaml: the file is empty; write at least: {identities: {demo: {static: {token_file: token}}}, \
                users: {alice: {identity: demo}}, routes: [{upstream: \"http://127.0.0.1:9000\"}]}
                """
            ]
        ),
        (
            both + "routes: []\n",
            [
                "lanyard.yaml:6:9: routes is empty; add a route with at least an upstream"
            ]
        ),
        (
            both + "routes:\n",
            [
                "lanyard.yaml:6:8: routes: expected a list, found nothing; write [ ] around it, or a dash before each element"
            ]
        ),
        (
            both + "routes:\n  - name: a\n",
            [
                "lanyard.yaml:7:5: missing key \"routes[0].upstream\"; add it: http://…, https://… or unix:/path"
            ]
        ),
        (
            app + "users: {alice: {identity: app, login: {anonymus: {}}}}\n" + upstream,
            [
                "lanyard.yaml:4:40: unknown key \"anonymus\" in users.alice.login; did you mean \"anonymous\"?"
            ]
        ),
        (
            app + "users: {alice: {identity: app, login: {email_password: {email: a@b.c, password: hunter2}}}}\n"
                + upstream,
            [
                """
                lanyard.yaml:4:71: unknown key \"password\" in users.alice.login.email_password; secrets do not stand in the \
                configuration: write it to a file of mode 0600, and name that file as password_file
                """
            ]
        ),
        (
            app + "users: {alice: {identity: app, login: {email_password: {email: a@b.c}}}}\n" + upstream,
            [
                "lanyard.yaml:4:56: missing key \"users.alice.login.email_password.password_file\"; add the path of the file that holds it"
            ]
        ),
        (
            identities + "users: {alice: {}}\n" + upstream,
            [
                """
                lanyard.yaml:4:16: missing key \"users.alice.identity\"; add it: a name of 1 to 64 letters, digits, \
                dots, dashes and underscores
                """
            ]
        ),
        (
            "identities:\n  demo: {app_services: {app_id: a}}\nusers:\n  alice: {identity: demo, login: {anonymous: {}}}\n"
                + upstream,
            [
                """
                lanyard.yaml:2:24: missing key \"identities.demo.app_services.base_url\"; add it: an http:// or \
                https:// URL
                """
            ]
        ),
    ]

    static let shapes: [Case] = [
        (
            whole + "listeners: {address: '127.0.0.1:7400'}\n",
            [
                "lanyard.yaml:8:12: listeners: expected a list, found a mapping; write [ ] around it, or a dash before each element"
            ]
        ),
        (
            whole + "limits: 5\n",
            [
                "lanyard.yaml:8:9: limits: expected a mapping, found a single value; write keys and values below it"
            ]
        ),
        (
            app + "users:\n  login: {anonymous: true}\n  identity: app\nroutes: [{upstream: http://127.0.0.1:2}]\n",
            [
                "lanyard.yaml:5:11: unknown key \"anonymous\" in users.login; it belongs below users.*.login: check the "
                    + "indentation, and whether a line above is missing",
                "lanyard.yaml:6:13: users.identity: expected a mapping, found a single value; identity is a key below a name of "
                    + "users: is the line of the name, such as NAME:, missing?",
            ]
        ),
        (
            whole.replacing("users:", with: "user:"),
            [
                "lanyard.yaml:5:3: user: expected a single value or none, found a mapping; did you mean \"users\"?",
                "warning: lanyard.yaml:7:3: routes follow the active user, and no user is configured; add users, or "
                    + "requests get 503 no-active-user",
            ]
        ),
        (
            whole + "limits: {connections_max: [5]}\n",
            [
                "lanyard.yaml:8:27: limits.connections_max: expected a single value, found a list; write it on the line of its key"
            ]
        ),
        (
            whole + "limits: {connections_max: }\n",
            [
                "lanyard.yaml:8:27: limits.connections_max: no value; write a whole number from 1 to 1000000, or remove the key"
            ]
        ),
        (
            whole + "log: {access: yes}\n",
            [
                "lanyard.yaml:8:15: log.access: \"yes\" is not true or false; write true or false"
            ]
        ),
        (
            whole + "limits: {connections_max: 0}\n",
            [
                "lanyard.yaml:8:27: limits.connections_max: \"0\" is not a whole number from 1 to 1000000; choose one in that range"
            ]
        ),
        (
            whole + "refresh: {wait_max: 5}\n",
            [
                """
                lanyard.yaml:8:21: refresh.wait_max: \"5\" is not a duration from 0s to 1d; write a whole number and \
                ms, s, m, h or d, such as 90s
                """
            ]
        ),
        (
            whole + "limits: {header_bytes_max: none}\n",
            [
                """
                lanyard.yaml:8:28: limits.header_bytes_max: \"none\" is not a size from 1KiB to 1MiB; write a whole \
                number and B, KiB, MiB or GiB, such as 64KiB
                """
            ]
        ),
        (
            whole + "limits: {connections_per_peer_max: nil}\n",
            [
                """
                lanyard.yaml:8:36: limits.connections_per_peer_max: \"nil\" is not a whole number from 1 to 1000000; \
                write digits only; or write none
                """
            ]
        ),
        (
            whole + "refresh: {at: 75-65%}\n",
            [
                "lanyard.yaml:8:15: refresh.at: \"75-65%\" is not a part of the lifetime in percent; write such as 65-75%"
            ]
        ),
        (
            whole + "listeners:\n  - {address: 'unix:/run/a.sock', socket_mode: 0999}\n",
            [
                "lanyard.yaml:9:48: listeners[0].socket_mode: \"0999\" is not permissions in octal; "
                    + "write four digits that begin with 0, such as \"0660\""
            ]
        ),
        (
            both + "routes:\n  - {upstream: 'http://127.0.0.1:1', client_authorization: rejct}\n",
            [
                "lanyard.yaml:7:60: routes[0].client_authorization: \"rejct\" is not one of replace, reject, pass; did you mean \"reject\"?"
            ]
        ),
        (
            both + "routes:\n  - {upstream: 'http://127.0.0.1:1', host: upsteam}\n",
            [
                "lanyard.yaml:7:44: routes[0].host: \"upsteam\" is neither a mapping nor upstream or client; did you mean \"upstream\"?"
            ]
        ),
        (
            identities + "users: {a/b: {identity: demo}}\n" + upstream,
            [
                """
                lanyard.yaml:4:9: \"a/b\" in users is not a name of 1 to 64 letters, digits, dots, dashes and \
                underscores; choose another name
                """
            ]
        ),
        (
            both + "routes:\n  - {name: a b, upstream: 'http://127.0.0.1:1'}\n",
            [
                """
                lanyard.yaml:7:12: routes[0].name: \"a b\" is not a name of 1 to 64 letters, digits, dots, dashes and \
                underscores; choose another name
                """
            ]
        ),
    ]

    static let accounts: [Case] = [
        (
            plainService("app_services: {app_id: a, base_url: http://id.internal}"),
            [
                """
                lanyard.yaml:3:41: identities.demo.app_services.base_url: plain http would show passwords and tokens \
                on the network path to id.internal; use https, or add unsafe_plain: true to identities.demo if that way is safe
                """
            ]
        ),
        (plainService("app_services: {app_id: a, base_url: http://id.internal}\n    unsafe_plain: true"), []),
        (plainService("app_services: {app_id: a, base_url: http://localhost:1}"), []),
        (
            plainService("oauth2: {client_id: a, endpoints: {token: http://10.0.0.1/t}}"),
            [
                """
                lanyard.yaml:3:47: identities.demo.oauth2.endpoints.token: plain http would show passwords and tokens \
                on the network path to 10.0.0.1; use https, or add unsafe_plain: true to identities.demo if that way is safe
                """
            ]
        ),
        (
            "identities: {demo: {}}\nusers: {alice: {identity: demo}}\n" + upstream,
            [
                "lanyard.yaml:1:20: identities.demo has no kind; add one of app_services, static, oauth2, github_app, lanyard"
            ]
        ),
        (
            identities
                + "    app_services: {app_id: a, base_url: 'http://127.0.0.1:1'}\nusers:\n  alice: {identity: demo}\n"
                + upstream,
            [
                "lanyard.yaml:4:5: identities.demo: both static and app_services; keep one of them"
            ]
        ),
        (
            """
            identities:\n  demo:\n    app_services: {app_id: a, base_url: 'http://127.0.0.1:1/api?x'}\n\
            users: {alice: {identity: demo, login: {anonymous: {}}}}\n
            """
                + upstream,
            [
                """
                lanyard.yaml:3:41: identities.demo.app_services.base_url: \"http://127.0.0.1:1/api?x\" has a query or \
                fragment; remove everything from the ? or # on
                """
            ]
        ),
        (
            """
            identities:\n  demo:\n    app_services: {app_id: a, base_url: 'https://169.254.169.254'}\n\
            users: {alice: {identity: demo, login: {anonymous: {}}}}\n
            """
                + upstream,
            [
                """
                lanyard.yaml:3:41: identities.demo.app_services.base_url: 169.254.169.254 is an address of metadata \
                services, such as link-local ones; name the identity service; no identity call goes there
                """
            ]
        ),
        (
            identities + "users: {alice: {identity: dmo}}\n" + upstream,
            [
                "lanyard.yaml:4:27: users.alice.identity: no identity \"dmo\"; did you mean \"demo\"?"
            ]
        ),
        (
            app + "users: {alice: {identity: app, login: {anonymous: {}, api_key: {key_file: token}}}}\n" + upstream,
            [
                "lanyard.yaml:4:55: users.alice.login: both anonymous and api_key; keep one of them"
            ]
        ),
        (
            app + "users: {alice: {identity: app, login: {google: {}}}}\n" + upstream,
            [
                "lanyard.yaml:4:48: users.alice.login.google has no secret; add id_token_file or auth_code_file"
            ]
        ),
        (
            app + "users: {alice: {identity: app, login: {google: {id_token_file: token, auth_code_credential: c}}}}\n"
                + upstream,
            [
                """
                lanyard.yaml:4:93: users.alice.login.google: both id_token_file and auth_code_credential; keep one of \
                them
                """
            ]
        ),
        (
            app + "users: {alice: {identity: app, login: {jwt: {}}}}\n" + upstream,
            [
                "lanyard.yaml:4:45: missing key \"users.alice.login.jwt.token_file\"; add the path of the file that holds it"
            ]
        ),
        (
            app + "users: {alice: {identity: app, login: {apple: {id_token: x}}}}\n" + upstream,
            [
                """
                lanyard.yaml:4:48: unknown key "id_token" in users.alice.login.apple; secrets do not stand in the \
                configuration: write it to a file of mode 0600, and name that file as id_token_file
                """
            ]
        ),
        (
            app + "users: {alice: {identity: app, login: {}}}\n" + upstream,
            [
                """
                lanyard.yaml:4:39: users.alice.login has no kind; add one of anonymous, email_password, api_key, \
                function, jwt, facebook, google, apple
                """
            ]
        ),
        (
            identities + "users: {alice: {identity: demo, login: {anonymous: {}}}}\n" + upstream,
            [
                "lanyard.yaml:4:40: users.alice.login: a static identity has no login; remove the login"
            ]
        ),
        (
            """
            identities: {app: {app_services: {app_id: a, base_url: 'http://me:pw@h'}, tls: {ca_file: gone.pem}}}\n\
            users: {alice: {identity: app, login: {anonymous: {}}}}\n
            """
                + upstream,
            [
                """
                lanyard.yaml:1:56: identities.app.app_services.base_url: a URL with user info; remove what stands \
                before the @; secrets are given as files
                """,
                "lanyard.yaml:1:90: identities.app.tls.ca_file: gone.pem does not exist; put the file there, or correct the path",
            ]
        ),
        (
            identities + "    tls: {ca_file: gone.pem}\nusers:\n  alice: {identity: demo}\n" + upstream,
            [
                "lanyard.yaml:4:20: identities.demo.tls.ca_file: gone.pem does not exist; put the file there, or correct the path"
            ]
        ),
        (
            identities + "    tls: {certificate_file: token}\nusers:\n  alice: {identity: demo}\n" + upstream,
            [
                "lanyard.yaml:4:10: identities.demo.tls: certificate_file and key_file belong together; give both or none",
                """
                lanyard.yaml:4:29: identities.demo.tls.certificate_file: token holds no certificate in PEM, or a \
                damaged one; name a file with BEGIN CERTIFICATE in it; openssl x509 -inform der -in FILE makes PEM of \
                DER
                """,
            ]
        ),
        (
            identities + "    tls: {ca_file: token}\nusers:\n  alice: {identity: demo}\n" + upstream,
            [
                """
                lanyard.yaml:4:20: identities.demo.tls.ca_file: token holds no certificate in PEM, or a damaged one; \
                name a file with BEGIN CERTIFICATE in it; openssl x509 -inform der -in FILE makes PEM of DER
                """
            ]
        ),
        (
            """
            identities:\n  demo:\n    app_services: {app_id: a, base_url: 'http://me:hunter2@h/x?y'}\n\
            users: {alice: {identity: demo, login: {anonymous: {}}}}\n
            """
                + upstream,
            [
                """
                lanyard.yaml:3:41: identities.demo.app_services.base_url: a URL with user info and a path and a query \
                or fragment; remove what stands before the @, and the path, and everything from the ? or # on; \
                secrets are given as files
                """
            ]
        ),
        (
            """
            identities:\n  demo:\n    app_services: {app_id: a, base_url: 'http://me:hunter2/x@h'}\n\
            users: {alice: {identity: demo, login: {anonymous: {}}}}\n
            """
                + upstream,
            [
                """
                lanyard.yaml:3:41: identities.demo.app_services.base_url: a URL with user info and a path; remove \
                what stands before the @, and the path; secrets are given as files
                """
            ]
        ),
        (
            identities + "    proxy: http://u:hunter2@p:3128\nusers:\n  alice: {identity: demo}\n" + upstream,
            [
                """
                lanyard.yaml:4:12: identities.demo.proxy: a URL with user info; remove what stands before the @: a \
                password is not allowed here; or write none or environment
                """
            ]
        ),
        (
            "identities:\n  demo:\n    static: {token_file: token, token_credential: token}\nusers:\n  alice: {identity: demo}\n"
                + upstream,
            [
                "lanyard.yaml:3:51: identities.demo.static: both token_file and token_credential; keep one of them"
            ]
        ),
        (
            "identities: {i: {static: {token_credential: token}}}\nusers: {u: {identity: i}}\n" + upstream,
            [
                """
                lanyard.yaml:1:45: identities.i.static.token_credential: systemd passed no credentials; add \
                LoadCredential=token:/PATH to the unit, or use token_file
                """
            ]
        ),
    ]

    static let warnings: [Case] = [
        (
            both + "routes:\n  - {upstream: 'http://127.0.0.1:1', user: alcie}\n",
            [
                "warning: lanyard.yaml:7:44: routes[0].user: no user \"alcie\" is configured; did you mean \"alice\"?"
            ]
        ),
        (
            both + "routes:\n  - {upstream: 'http://127.0.0.1:1', user: zoe}\n",
            [
                "warning: lanyard.yaml:7:44: routes[0].user: no user \"zoe\" is configured; requests get 503 until it exists"
            ]
        ),
        (
            whole + "active_user: bob\n",
            [
                "warning: lanyard.yaml:8:14: active_user: no user \"bob\" is configured; requests get 503 until it exists"
            ]
        ),
        (
            upstream,
            [
                """
                warning: lanyard.yaml:2:3: routes follow the active user, and no user is configured; add users, or \
                requests get 503 no-active-user
                """
            ]
        ),
        (
            both + "routes:\n  - {upstream: 'http://127.0.0.1:1', match: {path: '/x/*'}, deny: [{path: '/x/*/y'}]}\n",
            [
                """
                warning: lanyard.yaml:7:52: routes[0].match.path: "/x/*" is no pattern: only paths that have the character \
                * there begin with it; a path is a prefix; write /x/ for all that begins so
                """,
                """
                warning: lanyard.yaml:7:75: routes[0].deny[0].path: "/x/*/y" is no pattern: only paths that have the \
                character * there begin with it; a path is a prefix; write /x/ for all that begins so
                """,
            ]
        ),
        (
            both
                + "routes:\n  - {upstream: 'http://127.0.0.1:1', set_headers: {X-Home: '${HOME}/x', X-Cost: '$5 {a}'}}\n",
            [
                """
                warning: lanyard.yaml:7:60: routes[0].set_headers.X-Home: ${HOME} is plain text: no variable is replaced in a \
                value; write the value, or set the key by its own variable (lanyard run --help)
                """
            ]
        ),
        (
            both + "routes:\n  - {upstream: 'http://127.0.0.1:1', match: {path: '/x;v=1/y', methods: [GET, TRACE]}}\n",
            [
                """
                warning: lanyard.yaml:7:52: routes[0].match.path: "/x;v=1/y" matches nothing: a path that begins so has \
                two meanings, and is refused; write /x, which matches with and without parameters
                """,
                """
                warning: lanyard.yaml:7:73: routes[0].match.methods: TRACE matches nothing: Lanyard refuses it on every \
                route; remove it
                """,
            ]
        ),
        (
            both + "routes:\n  - {upstream: 'http://127.0.0.1:1', timeouts: {connect_all: 1s}}\n",
            [
                """
                warning: lanyard.yaml:7:62: routes[0].timeouts.connect_all is shorter than connect, which then has no \
                effect; make connect_all the longer one
                """
            ]
        ),
        (
            whole + "listeners:\n  - {address: '127.0.0.1:7400', allowed_hosts: []}\n",
            [
                """
                warning: lanyard.yaml:9:48: listeners[0].allowed_hosts is empty: every request with a Host gets 421; \
                name the hosts that clients use, or remove the key
                """
            ]
        ),
        (
            both + "routes:\n  - {upstream: 'http://127.0.0.1:1', match: {hosts: [a.internal]}}\n"
                + "listeners:\n  - {address: '127.0.0.1:7400', allowed_hosts: []}\n",
            []
        ),
        (
            app + "users: {alice: {identity: app}}\n" + upstream,
            [
                """
                warning: lanyard.yaml:4:16: users.alice has no login: its requests get 503 login-required until an \
                operator logs it in; add login, or log it in by the admin API
                """
            ]
        ),
        (
            "identities:\n  demo:\n    static: {token_file: gone}\nusers:\n  alice: {identity: demo}\n" + upstream,
            [
                """
                warning: lanyard.yaml:3:26: identities.demo.static.token_file: gone does not exist; its user is \
                refused until the file appears
                """
            ]
        ),
    ]

    /// What nothing can mend while Lanyard runs.
    static let missingUsers: [Case] = [
        (
            both + "admin: off\nroutes:\n  - {upstream: 'http://127.0.0.1:1', user: alcie}\n",
            [
                "lanyard.yaml:8:44: routes[0].user: no user \"alcie\" is configured; did you mean \"alice\"?"
            ]
        ),
        (
            whole + "    user: zoe\nadmin: {address: off}\n",
            [
                """
                lanyard.yaml:8:11: routes[0].user: no user \"zoe\" is configured; add it below users, or turn the \
                admin API on to add it there
                """
            ]
        ),
    ]

    static let ignored: [Case] = [
        (
            whole + "listeners:\n  - {address: '127.0.0.1:7400', socket_mode: '0600'}\n",
            [
                """
                lanyard.yaml:9:46: listeners[0].socket_mode: 127.0.0.1:7400 is not a unix socket, so this restricts \
                no client; use unix:/path, or remove socket_mode
                """
            ]
        ),
        (
            whole + "listeners:\n  - {address: 'unix:/run/a', allowed_hosts: ['a:1']}\n",
            [
                """
                warning: lanyard.yaml:9:45: listeners[0].allowed_hosts is ignored: a unix socket takes every Host; \
                remove it; socket_mode decides which clients may connect
                """
            ]
        ),
        (
            whole + "health: {address: 'unix:/run/health', allowed_hosts: ['a:1']}\n",
            [
                """
                warning: lanyard.yaml:8:54: health.allowed_hosts is ignored: a unix socket takes every Host; \
                remove it, or give health.address a TCP address
                """
            ]
        ),
        (
            whole + "admin: {token_file: token}\n",
            [
                """
                warning: lanyard.yaml:8:21: admin.token_file is ignored: a unix socket lets in only root and \
                Lanyard's own user; remove it, or give admin.address a TCP address
                """
            ]
        ),
        (
            identities + "    tls: {ca_file: ca.pem}\n" + users + upstream,
            [
                "warning: lanyard.yaml:4:10: identities.demo.tls is ignored: a static identity calls no service; remove it"
            ]
        ),
        (
            app + "    tls: {ca_file: ca.pem}\nusers: {alice: {identity: app, login: {anonymous: {}}}}\n" + upstream,
            [
                "warning: lanyard.yaml:4:10: identities.app.tls is ignored: base_url is plain http; use https, or remove tls"
            ]
        ),
    ]

    static let upstreamTLS: [Case] = [
        (
            both + "routes:\n  - {upstream: 'http://127.0.0.1:1', tls: {ca_file: ca.pem}}\n",
            [
                """
                warning: lanyard.yaml:7:43: routes[0].tls is ignored: the upstream does not speak TLS; use https, or \
                remove tls
                """
            ]
        ),
        (
            both + "routes:\n  - {upstream: 'https://a.example', tls: {certificate_file: ca.pem}}\n",
            [
                """
                lanyard.yaml:7:42: routes[0].tls: certificate_file and key_file belong together; give both or none
                """
            ]
        ),
        (
            both + "routes:\n  - {upstream: 'https://a.example', tls: {unsafe_skip_verify: true}}\n",
            [
                """
                warning: lanyard.yaml:7:63: routes[0].tls.unsafe_skip_verify: tokens go to any server that responds in \
                the upstream's place; name its authority with ca_file
                """
            ]
        ),
        (
            both + "routes:\n  - {upstream: 'https://a.example', tls: {ca_file: token, server_name: 'a:1'}}\n",
            [
                """
                lanyard.yaml:7:52: routes[0].tls.ca_file: token holds no certificate in PEM, or a damaged one; name a \
                file with BEGIN CERTIFICATE in it; openssl x509 -inform der -in FILE makes PEM of DER
                """,
                "lanyard.yaml:7:72: routes[0].tls.server_name: \"a:1\" is not a host name without port; write such as orders.internal",
            ]
        ),
    ]

    static let unbuilt: [Case] = [
        (
            whole
                + """
                sandbox: require\nlisteners:\n  - {address: 'systemd:data'}\n\
                  - {address: '127.0.0.1:1', capability_file: token, required_header: X, peers: {uids: [0]}}\n
                """,
            [
                "lanyard.yaml:8:10: sandbox \"require\" is not in this version; remove it if Lanyard may run without it",
                """
                lanyard.yaml:11:81: listeners[1].peers: 127.0.0.1:1 is not a unix socket, so this restricts no client; use \
                unix:/path, or capability_file in place of peers
                """,
            ]
        ),
        (
            whole
                + """
                admin: {address: 'unix:/run/a.sock', expose_tokens: true}\non_active_logout: next\nuser: nobody\n\
                shutdown: {logout: true}\nlogin: {offline: never, exit_on_refusal: true}\nlog: {access: false}\n
                """,
            [
                """
                lanyard.yaml:10:7: user \"nobody\" is not in this version; start Lanyard as that user (systemd's \
                User=, setpriv), and remove it
                """,
                """
                lanyard.yaml:11:20: shutdown.logout \"true\" is not in this version; remove it, and log users out by \
                the admin API before the stop
                """,
            ]
        ),
        (
            whole + "admin: {address: 'unix:/run/a.sock', expose_tokens: true}\nsandbox: auto\nlog: {access: true}\n",
            [
                "warning: lanyard.yaml:9:10: sandbox \"auto\" is not in this version; it is ignored: off holds"
            ]
        ),
        (
            whole
                + """
                admin: off\nsandbox: off\nuser: none\nlog: {access: false}\nshutdown: {logout: false}\n\
                store: {memory: true}\nlisteners:\n  - {address: '127.0.0.1:1', required_header: none-of-these}\n
                """,
            []
        ),
    ]
}
