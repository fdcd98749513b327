import Foundation
import Glibc
import TestSupport
import Testing

@testable import SystemTestSupport

/// curl in front of the built binary, nginx behind it.
@Suite(
    .serialized,
    .enabled("needs curl and nginx") { NginxProcess.isInstalled && access("/usr/bin/curl", X_OK) == 0 })
struct CurlClientTests {
    private let folder: TemporaryFolder
    private let nginx: NginxProcess
    private let lanyard: LanyardProcess
    private let large: Data

    init() async throws {
        folder = try TemporaryFolder()
        try FileManager.default.createDirectory(atPath: folder.file("store"), withIntermediateDirectories: true)
        try folder.write("text.txt", String(repeating: "a line of text\n", count: 20_000))
        var random = SeededGenerator(16)
        large = Data(random.bytes(3 << 20))
        try large.write(to: URL(fileURLWithPath: folder.file("large")))
        nginx = try await NginxProcess.start(
            """
            root \(folder.path);
            location / { gzip on; gzip_proxied any; gzip_types text/plain; }
            location /store/ { dav_methods PUT DELETE; client_max_body_size 8m; }
            location /small/ { dav_methods PUT; client_max_body_size 1m; alias \(folder.file("store"))/; }
            location = /old { return 302 /seen; }
            location = /found { return 302 http://$http_host/text.txt; }
            location = /login {
                add_header Set-Cookie "sid=1; Domain=127.0.0.1; Path=/";
                return 303 http://$http_host/cookie;
            }
            location = /cookie { return 200 "$http_cookie"; }
            location /seen { return 200 "$request_method $http_authorization $content_length $http_transfer_encoding"; }
            """, in: folder)
        lanyard = try await LanyardProcess.start(before: "\(nginx.endpoint)")
    }

    /// Runs curl; what it printed on stdout and stderr.
    private func curl(_ arguments: [String], fails: Bool = false) async throws -> (output: String, errors: String) {
        let process = try ServerProcess("/usr/bin/curl", ["-sS", "--noproxy", "", "-m", "30"] + arguments)
        let exit = try await process.waitForExit()
        guard fails || exit == .code(0) else { throw TestFailure("curl \(arguments): \(exit)\n\(process.log)") }
        return (process.output, process.log)
    }

    private func url(_ path: String) -> String { "http://\(lanyard.data)\(path)" }
    private func file(_ name: String) throws -> Data { try Data(contentsOf: URL(fileURLWithPath: folder.file(name))) }

    @Test("GET, HEAD and POST")
    func plain() async throws {
        #expect(try await curl([url("/text.txt")]).output.utf8.count == 300_000)
        #expect(try await curl(["-I", url("/text.txt")]).output.contains("Content-Length: 300000\r\n"))
        #expect(try await curl(["-d", "hello", url("/seen")]).output == "POST Bearer stream-token 5 ")
        let chunked = ["-H", "Transfer-Encoding: chunked", "-d", "hello", url("/seen")]
        // What nginx makes of the length depends on how much of the body came with the head.
        #expect(try await curl(chunked).output.wholeMatch(of: /POST Bearer stream-token \d* chunked/) != nil)
        #expect(try await curl(["-X", "PATCH", "-d", "", url("/seen")]).output.hasPrefix("PATCH Bearer "))
    }

    @Test("a large upload waits for 100 Continue, gets it from nginx, and arrives whole", arguments: [false, true])
    func granted(_ chunked: Bool) async throws {
        let framing = chunked ? ["-H", "Transfer-Encoding: chunked"] : []
        let run = try await curl(
            framing + ["-v", "-H", "Expect: 100-continue", "-T", folder.file("large"), url("/store/up")])
        #expect(run.errors.contains("< HTTP/1.1 100 Continue") && run.errors.contains("< HTTP/1.1 201 Created"))
        #expect(try file("store/up") == large)
    }

    @Test("12.6 curl -L stays behind Lanyard, with its cookies, whatever Host nginx builds the redirect from")
    func redirects() async throws {
        #expect(try await curl(["-L", url("/old")]).output == "GET Bearer stream-token  ")
        #expect(try await curl(["-L", url("/found")]).output.utf8.count == 300_000)
        let run = try await curl(["-L", "-b", "", "-w", "\n%{url_effective}", url("/login")])
        #expect(run.output == "sid=1\n\(url("/cookie"))")
        #expect(try await curl(["-o", "/dev/null", "-w", "%{redirect_url}", url("/old")]).output == url("/seen"))
    }

    @Test("H2 curl that speaks HTTP/2 without asking gets what it gets by HTTP/1.1")
    func http2() async throws {
        let plain = try await curl([url("/seen")]).output
        let version = ["--http2-prior-knowledge", "-w", "\n%{http_version}"]
        #expect(try await curl(version + [url("/seen")]).output == plain + "\n2")
        // Not by -L: curl 7.88.1 ends with 16 when it uses such a connection again, behind nghttpx 1.52, too.
        #expect(try await curl(version + [url("/text.txt")]).output.utf8.count == 300_002)
    }

    @Test("an upload that nginx refuses at its head is not sent")
    func refused() async throws {
        let arguments = [
            "-v", "-o", "/dev/null", "-w", "%{http_code} %{size_upload}", "-H", "Expect: 100-continue", "-T",
            folder.file("large"), url("/small/up"),
        ]
        let run = try await curl(arguments)
        #expect(run.output == "413 0")
        #expect(!run.errors.contains("100 Continue"))
    }

    @Test("an upload that is refused while it is sent ends with the refusal, not with an error")
    func refusedLate() async throws {
        for _ in 0..<10 {
            let arguments = [
                "-o", "/dev/null", "-w", "%{http_code}", "-H", "Expect:", "-T", folder.file("large"), url("/small/up"),
            ]
            #expect(try await curl(arguments).output == "413")
        }
    }

    @Test("HTTP/1.0: the response is whole, without chunks, and ends with the connection")
    func oldVersion() async throws {
        let run = try await curl(["-0", "-v", url("/text.txt")])
        #expect(run.output.utf8.count == 300_000)
        #expect(run.errors.contains("> GET /text.txt HTTP/1.0"))
        // gzip has no length, so that nginx chunks it.
        let packed = try await curl(["-0", "-v", "--compressed", "-o", folder.file("unpacked"), url("/text.txt")])
        #expect(try file("unpacked") == file("text.txt"))
        #expect(!packed.errors.contains("chunked"))
        let kept = try await curl(
            ["-0", "-H", "Connection: keep-alive", "-w", "%{num_connects}\n", "-o", "/dev/null", "-o", "/dev/null"]
                + [url("/large"), url("/large")])
        #expect(kept.output == "1\n0\n")
    }

    @Test("ranges, conditions and compression are between curl and nginx")
    func negotiated() async throws {
        #expect(try await curl(["-r", "0-14", url("/text.txt")]).output == "a line of text\n")
        #expect(
            try await curl(["-r", "-5,0-4", "-o", "/dev/null", "-w", "%{http_code}", url("/large")]).output == "206")
        let tag = ["--etag-save", folder.file("etag"), "-o", "/dev/null", url("/large")]
        _ = try await curl(tag)
        let compare = ["--etag-compare", folder.file("etag"), "-o", "/dev/null", "-w", "%{http_code}", url("/large")]
        #expect(try await curl(compare).output == "304")
        #expect(
            try await curl(["-H", "Accept-Encoding: gzip", "-o", folder.file("packed"), url("/text.txt")]).output == "")
        #expect(try file("packed").starts(with: [0x1f, 0x8b]))
        #expect(try await curl(["--compressed", url("/text.txt")]).output.utf8.count == 300_000)
    }

    @Test("a connection is used for all requests of a run, whatever the responses are")
    func reuse() async throws {
        let paths = ["/large", "/missing", "/seen", "/text.txt", "/large"]
        let targets = paths.flatMap { ["-o", "/dev/null", url($0)] }
        #expect(try await curl(["-w", "%{num_connects}\n"] + targets).output == "1\n0\n0\n0\n0\n")
        let many = try await curl([
            "-Z", "--parallel-max", "40", "-o", "/dev/null", "-w", "%{http_code}\n", url("/seen?[1-300]"),
        ])
        #expect(many.output == String(repeating: "200\n", count: 300))
    }

    @Test(
        "told to use Lanyard as its proxy, curl asks in absolute form: served for Lanyard's own name, refused for another"
    )
    func absolute() async throws {
        let proxy = ["--proxy", "http://\(lanyard.data)"]
        let own = try await curl(proxy + ["-v", url("/seen")])
        #expect(own.errors.contains("> GET \(url("/seen")) HTTP/1.1"))
        #expect(own.output == "GET Bearer stream-token  ")
        let other = try await curl(proxy + ["-o", "/dev/null", "-w", "%{http_code}", "http://other.example/"])
        #expect(other.output == "421")
        for (place, status) in [("\(lanyard.data)", "405"), ("other.example", "421")] {
            let tunnel = try await curl(proxy + ["-w", "%{http_connect}", "https://\(place)/"], fails: true)
            #expect(tunnel.output == status)
        }
    }
}
