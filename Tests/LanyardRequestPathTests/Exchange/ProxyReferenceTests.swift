import LanyardRequestPath
import LanyardSettings
import TestSupport
import Testing

/// The client's own URLs in `Destination` and `If` (http-forwarding.md 10.7).
@Suite struct ProxyReferenceTests {
    /// Its route is `/files`, which the upstream has at `/dav`, without `/files/denied`.
    private static func bench(_ configure: (inout ProxyBench.Plan) -> Void = { _ in }) throws -> ProxyBench {
        try ProxyBench(plan: {
            $0.route.path = "/files"
            $0.route.upstreamPath = "/dav"
            $0.route.deny = [RouteSettings.Denial(path: "/files/denied")]
            configure(&$0)
        })
    }

    /// What the upstream gets of the field; else the status and the type of the problem.
    private func send(
        _ bench: ProxyBench, _ field: String, _ value: String, method: String = "MOVE", host: String = "localhost"
    ) async throws -> String {
        let before = bench.upstream.requests.count
        let response = try await bench.ask(
            "\(method) /files/a HTTP/1.1\r\nHost: \(host)\r\n\(field): \(value)\r\n\r\n", method: method)
        guard response.status == 200 else {
            #expect(bench.upstream.requests.count == before)
            return "\(response.status) \(try response.json["type"].string?.split(separator: ":").last ?? "")"
        }
        return bench.upstream.requests.last?[field] ?? "none"
    }

    @Test("10.7 a client-side Destination becomes the upstream's URL, below its path")
    func mapped() async throws {
        let bench = try Self.bench()
        for (sent, expected) in [
            ("http://localhost/files/b", "http://up.test/dav/b"),
            ("HTTP://LOCALHOST.:80/files/b?x=1", "http://up.test/dav/b?x=1"),
            ("http://localhost/files/sub/", "http://up.test/dav/sub/"),
            // All that is below it would be written: the denied path is.
            ("http://localhost/files", "403 denied-by-route"), ("http://localhost/files/", "403 denied-by-route"),
            ("http://localhost/files/%C3%A4%20b", "http://up.test/dav/%C3%A4%20b"), ("/files/b", "/dav/b"),
            ("http://localhost/%66iles/b", "http://up.test/dav/b"),
            // Behind a proxy with TLS.
            ("https://localhost/files/b", "http://up.test/dav/b"),
            // Another origin stays as it is, and so does the upstream's own name.
            ("http://localhost:81/files/b", "http://localhost:81/files/b"),
            ("http://other.test/x", "http://other.test/x"), ("http://up.test/dav/b", "http://up.test/dav/b"),
        ] {
            for method in ["MOVE", "COPY"] {
                #expect(try await send(bench, "Destination", sent, method: method) == expected, "\(sent)")
            }
        }
    }

    @Test("10.7 the mapped path is judged as a target: another route, a denied path, a path with two meanings")
    func judged() async throws {
        let bench = try Self.bench()
        let (denied, ambiguous, malformed) = ("403 denied-by-route", "400 ambiguous-path", "400 malformed-request")
        for (sent, expected) in [
            ("http://localhost/files/denied/x", denied), ("/files/denied", denied), ("http://localhost/other", denied),
            ("http://localhost", denied), ("/", denied), ("/filesx", denied),
            ("http://up.test/dav/denied/x", denied),
            ("https://UP.TEST./dav/denied", denied), ("http://up.test/other", denied), ("http://up.test/davx", denied),
            ("http://localhost/files/../other", ambiguous), ("http://localhost/files/x/..%2fdenied/y", ambiguous),
            ("/files/%2e%2e/x", ambiguous),
            ("http://localhost/files/%64enied/x", denied), ("/files//denied/x", ambiguous),
            ("http://localhost/files/%zz", malformed), ("/files/%00", malformed), ("/files/a b", malformed),
            ("/files/b#c", malformed),
            ("//localhost/files/b", malformed), ("http:/files/b", malformed),
            ("http://me@localhost/files/b", malformed), ("", malformed),
            // An upstream that does not look at the origin.
            ("http://other.test/dav/denied/x", denied), ("http://other.test/dav/denied#x", malformed),
            ("http://other.test/%64av/denied/x", ambiguous), ("http://other.test//dav/denied/x", ambiguous),
            ("http://other.test/q/../dav/denied/x", ambiguous), ("http://other.test/x y", malformed),
            // A path that cannot be read.
            ("http://other.test/dav/y%/../denied/x", malformed), ("http://other.test/dav/denied%00/x", malformed),
            ("http://other.test/dav/%zz/../denied/x", malformed), ("http://up.test/dav/y%/../denied/x", malformed),
            // Servers take the path of a URI of any scheme, and a relative reference from their root.
            ("dav://up.test/dav/denied/x", malformed), ("evil:/dav/denied/x", malformed), ("urn:uuid:1", malformed),
            ("dav/denied/x", malformed), ("b", malformed), ("../x", malformed), ("x\\..\\y", malformed),
            // wsgidav decodes the whole value, and then looks for a query and drops tabs and line ends.
            ("http://localhost/files/denied%3fx", denied), ("/files/denied%3F", denied),
            ("/files/b%3f/denied", "/dav/b%3f/denied"),
            ("http://other.test/dav/denied%3fx", denied), ("http://up.test/dav/denied%3fx", denied),
            ("/files/den%09ied", malformed), ("http://localhost/files/%0Adenied", malformed),
            ("/files/x%7F", malformed),
            ("http://localhost/files/%0d../x", malformed), ("http://other.test/x%1fy", malformed),
            ("http://up.test%2fdav%2fdenied%3f/x", malformed), ("http://local%68ost/files/b", malformed),
            // All below /files for wsgidav, which cuts parameters off between two decodings.
            ("/files//%3b%252fx", ambiguous),
        ] {
            #expect(try await send(bench, "Destination", sent) == expected, "\(sent)")
        }
        #expect(try await send(bench, "Destination", "/files/b\r\nDestination: /files/c") == malformed)
    }

    @Test("10.7 COPY and MOVE count as what they do: a read and a deletion at the source, a write at the destination")
    func deeds() async throws {
        let bench = try Self.bench {
            $0.route.deny = [
                RouteSettings.Denial(path: "/files/ro", methods: ["PUT"]),
                RouteSettings.Denial(path: "/files/keep", methods: ["DELETE"]),
                RouteSettings.Denial(path: "/files/a", methods: ["PATCH"]),
            ]
        }
        let denied = "403 denied-by-route"
        for (sent, expected) in [
            ("/files/b", "/dav/b"), ("/files/ro/x", denied), ("http://localhost/files/ro", denied),
            ("/files/%72o/x", denied), ("/files/x/..%2fro/y", "400 ambiguous-path"), ("/files/rox", "/dav/rox"),
            ("http://up.test/dav/ro/x", denied), ("http://other.test/dav/ro/x", denied),
            ("http://other.test/dav/b", "http://other.test/dav/b"),
            // What is there is deleted first.
            ("/files/keep/x", denied), ("/files/keep/x\r\nOverwrite: T", denied),
            ("/files/keep/x\r\nOverwrite: F", "/dav/keep/x"), ("/files/keep/x\r\nOverwrite: f", denied),
            ("/files/keep/x\r\nOverwrite: F\r\nOverwrite: T", denied),
            ("/files/keep/x\r\nOverwrite: F\r\nOverwrite: F", denied),
            ("/files/keep/x\r\nOverwrite: F\r\nConnection: overwrite", denied),
            ("/files/ro/x\r\nOverwrite: F", denied), ("/files/a/x", "/dav/a/x"),
            // Above what is denied: all members are written, or deleted first.
            ("/files", denied), ("http://localhost/files/", denied), ("/files/kee", "/dav/kee"),
        ] {
            for method in ["COPY", "MOVE"] {
                #expect(try await send(bench, "Destination", sent, method: method) == expected, "\(method) \(sent)")
            }
        }
        // A tag of If is read, and the Destination of another method is not written.
        #expect(try await send(bench, "If", "</files/ro> (<urn:a>)") == "</dav/ro> (<urn:a>)")
        #expect(try await send(bench, "Destination", "/files/ro/x", method: "POST") == "/files/ro/x")
        for (method, source, expected) in [
            ("COPY", "GET", denied), ("MOVE", "GET", denied), ("MOVE", "DELETE", denied), ("COPY", "DELETE", "/dav/b"),
            ("COPY", "PUT", "/dav/b"), ("MOVE", "PUT", "/dav/b"),
        ] {
            let other = try Self.bench {
                $0.route.deny = [RouteSettings.Denial(path: "/files/a", methods: [source])]
            }
            #expect(
                try await send(other, "Destination", "/files/b", method: method) == expected, "\(method) \(source)")
        }
        // Below the source.
        let above = try Self.bench { $0.route.deny = [RouteSettings.Denial(path: "/files/a/secret")] }
        for method in ["COPY", "MOVE"] {
            #expect(try await send(above, "Destination", "/files/b", method: method) == denied)
            // Denied by its own name, below the source, and below the destination.
            for (path, destination) in [("/files/a/x", "/files/b"), ("/files/b/x", "/files/b")] {
                let named = try Self.bench { $0.route.deny = [RouteSettings.Denial(path: path, methods: [method])] }
                #expect(
                    try await send(named, "Destination", destination, method: method) == denied, "\(method) \(path)")
            }
        }
    }

    @Test("10.7 without a mapped prefix a relative Destination passes if all that servers make of it may be written")
    func relative() async throws {
        let bench = try Self.bench {
            ($0.route.path, $0.route.upstreamPath) = ("/", nil)
            $0.route.deny = [
                RouteSettings.Denial(path: "/files/denied"), RouteSettings.Denial(path: "/top"),
                RouteSettings.Denial(path: "/files/ro", methods: ["PUT"]),
            ]
        }
        let (denied, ambiguous, malformed) = ("403 denied-by-route", "400 ambiguous-path", "400 malformed-request")
        for (sent, expected) in [
            ("b", "b"), ("b?rev=1-a", "b?rev=1-a"), ("_design%2Fb", "_design%2Fb"), ("sub/b", "sub/b"),
            ("./p:b", "./p:b"),
            // From the target's folder, from the root, and above what is denied.
            ("denied/x", denied), ("%64enied", denied), ("top", denied), ("files/denied", denied), ("ro/x", denied),
            ("files", denied), ("?rev=1-a", denied),
            ("../x", ambiguous), ("x/../../y", ambiguous), ("x/..%2fdenied/y", ambiguous),
            ("\\b", malformed), ("p:b", malformed), ("b#c", malformed), ("b c", malformed), ("%zz", malformed),
            // Something else for a server that decodes first.
            ("h%74tp://up.test/top", malformed), ("http%3A//up.test/top", malformed), ("%2f%2fup.test/top", malformed),
            ("%20/top", malformed), ("%5cx", malformed), ("top%3fx", denied), ("t%0dop", malformed),
            ("/%2fup.test/top", malformed), ("/%5C/up.test", malformed),
        ] {
            for method in ["MOVE", "COPY"] {
                #expect(try await send(bench, "Destination", sent, method: method) == expected, "\(sent)")
            }
        }
        #expect(try await send(bench, "If", "<b> (<urn:a>)") == malformed)
        #expect(try await send(bench, "Destination", "top", method: "PUT") == "top")
        for (target, expected) in [
            (String(repeating: "/a", count: 32), 200), (String(repeating: "/a", count: 33), 400), ("/files%2Fa", 403),
        ] {
            let head = "COPY \(target) HTTP/1.1\r\nHost: localhost\r\nDestination: denied\r\n\r\n"
            #expect(try await bench.ask(head, method: "COPY").status == expected, "\(target)")
        }
        // Read from the root it leads to no route.
        let below = try Self.bench { $0.route.upstreamPath = nil }
        #expect(try await send(below, "Destination", "b") == denied)
        #expect(try await send(below, "Destination", "files/b") == "files/b")
    }

    @Test("10.7 behind an upstream's path of / no reference becomes one that names a host")
    func emptyBase() async throws {
        let bench = try Self.bench { $0.route.upstreamPath = "/" }
        for (sent, expected) in [
            ("/files/b", "/b"), ("/files//up.test/denied", "400 malformed-request"),
            ("/files/%2Fup.test/denied", "400 malformed-request"), ("/files/\\x", "400 malformed-request"),
            ("http://localhost/files/b", "http://up.test/b"), ("/files/b//c", "/b//c"),
        ] {
            #expect(try await send(bench, "Destination", sent) == expected, "\(sent)")
        }
    }

    @Test("10.7 other methods may use a field of that name: only the client's own URL is mapped and judged")
    func otherMethods() async throws {
        let bench = try Self.bench()
        for (sent, expected) in [
            ("Paris (Nord)", "Paris (Nord)"), ("/queue/1", "/queue/1"), ("../x", "../x"),
            ("http://localhost/files/b", "http://up.test/dav/b"),
            ("http://localhost/other", "403 denied-by-route"), ("/files/denied/x", "403 denied-by-route"),
        ] {
            #expect(try await send(bench, "Destination", sent, method: "PUT") == expected, "\(sent)")
        }
    }

    @Test("10.7 the tags of If are mapped and judged, its conditions are not touched")
    func conditions() async throws {
        let bench = try Self.bench()
        for (sent, expected) in [
            ("(<urn:uuid:1>)", "(<urn:uuid:1>)"),
            ("(Not <http://localhost/files/x> [\"a)(\"])", "(Not <http://localhost/files/x> [\"a)(\"])"),
            (
                "<http://localhost/files/b> (<urn:uuid:1> [W/\"<>\"]) ([\"x\"])  </files> (Not <DAV:no-lock>)",
                "<http://up.test/dav/b> (<urn:uuid:1> [W/\"<>\"]) ([\"x\"])  </dav> (Not <DAV:no-lock>)"
            ),
            ("<http://other.test/x> (<urn:uuid:1>)", "<http://other.test/x> (<urn:uuid:1>)"),
            ("<http://localhost/files/denied> (<urn:uuid:1>)", "403 denied-by-route"),
            ("</files/../x> ([\"a\"])", "400 ambiguous-path"),
            ("(<urn:uuid:1>", "400 malformed-request"), ("<http://localhost/files/b", "400 malformed-request"),
            ("x", "400 malformed-request"),
            ("", "400 malformed-request"),
            (String(repeating: "</files/b> (<urn:a>) ", count: 65), "400 malformed-request"),
            // In all lines together.
            (
                String(repeating: "</files/b> (<urn:a>) ", count: 33) + "\r\nIf: "
                    + String(repeating: "</files/b> (<urn:a>) ", count: 32), "400 malformed-request"
            ),
            ("<http://other.test/dav/y%/../denied/x> (<urn:a>)", "400 malformed-request"),
            ("<http://other.test/dav/denied%00/x> (<urn:a>)", "400 malformed-request"),
        ] {
            for method in ["MOVE", "PUT"] {
                #expect(try await send(bench, "If", sent, method: method) == expected, "\(sent)")
            }
        }
    }

    @Test("10.7 without a mapped prefix only the origin changes, and the upstream's Host is the name that it knows")
    func hosts() async throws {
        for (host, expected) in [
            (RouteSettings.HostPolicy.upstream, "http://up.test/files/b"), (.client, "http://localhost/files/b"),
            (.value("dav.test:81"), "http://dav.test:81/files/b"),
        ] {
            let bench = try Self.bench { ($0.route.host, $0.route.upstreamPath) = (host, nil) }
            #expect(try await send(bench, "Destination", "http://localhost/files/b") == expected)
            #expect(try await send(bench, "Destination", "/files/b") == "/files/b")
            #expect(try await send(bench, "Destination", "http://localhost/x") == "403 denied-by-route")
        }
    }

    @Test("10.7 with TLS on both sides the schemes are https, and http is another origin")
    func secured() async throws {
        let bench = try Self.bench { $0.hasTLS = true }
        #expect(try await send(bench, "Destination", "https://localhost/files/b") == "https://up.test/dav/b")
        #expect(try await send(bench, "Destination", "http://localhost/files/b") == "http://localhost/files/b")
    }

    @Test("10.7 a field that Connection names is not sent, and an HTTP/1.0 client names itself by its target")
    func otherRequests() async throws {
        let bench = try Self.bench()
        #expect(try await send(bench, "Destination", "/files/b\r\nConnection: destination") == "none")
        let fields = "Destination: http://localhost/files/b\r\n\r\n"
        #expect(
            try await bench.ask("MOVE http://localhost/files/a HTTP/1.0\r\n\(fields)", method: "MOVE").status == 200)
        #expect(bench.upstream.requests.last?["Destination"] == "http://up.test/dav/b")
    }
}
