import TestSupport
import Testing

@testable import SystemTestSupport

/// "Filter and upstream never see different paths": nginx, which decodes once, merges slashes and removes dot segments,
/// is never led by a path that Lanyard forwards to where the route does not lead.
@Suite(.enabled(if: NginxProcess.isInstalled, "needs nginx"))
struct NginxPathTests {
    private static let pieces = [
        "/", "/", "a", "b", "api", "secret", "..", "..", ".", "%2e", "%2f", "%5c", "\\", ";", "%25", "%252e", "%252f",
        "//",
    ]

    @Test("2.3 No path leads nginx out of the route's prefix or base path, or into what the route denies")
    func paths() async throws {
        let folder = try TemporaryFolder()
        let nginx = try await NginxProcess.start(
            "location / { return 200 \"$uri\"; }", in: folder)
        // A unix socket's upstream has no base path.
        let gate = try FaultGate(before: nginx.endpoint)
        let upstream = "http://\(gate.endpoint)"
        let lanyard = try await LanyardProcess.start(
            """
            routes:
              - {name: api, match: {path: /api}, upstream: "\(upstream)"}
              - {name: based, match: {path: /b}, upstream: "\(upstream)/base"}
              - {name: guarded, match: {path: /}, upstream: "\(upstream)", deny: [{path: /secret}]}
            """, token: "a-token")
        try await lanyard.untilReady()
        var random = SeededGenerator(14)
        var paths = ["/api/x", "/b/x", "/x"]
        for split in ["\\", "%5c", "%5C", "%252f", "%255c", "%2f", ";"] {
            paths += ["/api/a\(split)b/../../secret", "/b/a\(split)b/../../secret", "/x/a\(split)b/../../secret"]
        }
        paths += ["/x/../secret/..;/y", "/./secret/%252e%252e/y", "//secret/%252e%252e/y", "/x/../secret/%5c../y"]
        for start in ["/api", "/b", ""] {
            for _ in 0..<400 {
                let count = Int.random(in: 1...8, using: &random)
                paths.append(
                    start + "/" + (0..<count).map { _ in Self.pieces.randomElement(using: &random)! }.joined())
            }
        }
        let data = lanyard.data, all = paths
        let forwarded = try {
            let client = try RawClient(data)
            return try all.filter { path in
                let response = try client.exchange("GET", path, host: "\(data)")
                guard response.status == 200 else {
                    #expect([400, 403].contains(response.status), "\(path)")
                    return false
                }
                let place = ["/api", "/b"].first { Self.isBelow(path, $0) } ?? "/"
                let isRight =
                    Self.isBelow(response.bodyText, place == "/b" ? "/base" : place)
                    && (place != "/" || !Self.isBelow(response.bodyText, "/secret"))
                #expect(isRight, "\(path): \(response.bodyText)")
                return true
            }.count
        }()
        #expect(forwarded > 100 && forwarded < all.count - 100)
    }

    private static func isBelow(_ path: String, _ place: String) -> Bool {
        place == "/" || path == place || path.hasPrefix(place + "/")
    }
}
