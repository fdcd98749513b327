import LanyardFoundations
import TestSupport
import Testing

@testable import LanyardRequestPath

/// Scans that look at several bytes together find what a look at each byte finds.
@Suite struct ByteScanTests {
    @Test("the end of a value, for every byte at every place of a block, before every other odd byte")
    func endOfValue() async throws {
        try await scan(isAllowed: ByteClass.isValue) { $0.endOfValue(from: $1) }
    }

    @Test("the end of a plain name, for every byte at every place of a block, before every other odd byte")
    func endOfPlainName() async throws {
        try await scan(isAllowed: ByteClass.isPlainName) { $0.endOfPlainName(from: $1) }
    }

    @Test("the end of a target, for every byte at every place of a block, before every other odd byte")
    func endOfTarget() async throws {
        try await scan(isAllowed: ByteClass.isTarget) { $0.endOfTarget(from: $1) }
    }

    /// Two seconds of computing each: not on the pool, where nothing else would run in that time.
    private func scan(
        isAllowed: @escaping @Sendable (UInt8) -> Bool, _ end: @escaping @Sendable (Bytes, Int) -> Int
    ) async throws {
        let faults = Self.faults(isAllowed, end)
        #expect(faults.isEmpty)
    }

    /// Both sides of each border between classes of bytes.
    private static let borders: [UInt8] =
        [0x00, 0x08, 0x09, 0x0a, 0x0d, 0x1f, 0x20, 0x21, 0x22, 0x23, 0x24, 0x2c, 0x2d, 0x2e, 0x2f, 0x30, 0x39, 0x3a]
        + [0x40, 0x41, 0x5a, 0x5b, 0x60, 0x61, 0x7a, 0x7b, 0x7e, 0x7f, 0x80, 0xad, 0xff]

    private static func faults(_ isAllowed: (UInt8) -> Bool, _ end: (Bytes, Int) -> Int) -> [String] {
        var faults: [String] = []
        for length in 0...35 {
            // Every byte in texts shorter than a block, of one block, of one with a rest, and of two.
            let tested = [7, 16, 18, 32].contains(length) ? Array(UInt8.min ... .max) : borders
            for place in 0..<max(length, 1) {
                for byte in tested {
                    for other: UInt8 in [0x61, 0x09, 0x0d, 0x7f, 0x00, 0xff, 0x80, 0x20] {
                        var bytes = [UInt8](repeating: 0x62, count: length)
                        if length > 0 {
                            bytes[length - 1] = other
                            bytes[place] = byte
                        }
                        for start in [0, 1, 7] where start <= length {
                            let expected = bytes[start...].firstIndex { !isAllowed($0) } ?? length
                            let found = bytes.withUnsafeBufferPointer { length == 0 ? 0 : end($0, start) }
                            if found != expected { faults.append("\(bytes) from \(start): \(found)") }
                        }
                    }
                }
            }
        }
        return faults
    }

    @Test("equality without regard to case, for every pair of bytes at every place of texts of all kinds of length")
    func equality() {
        var faults: [String] = []
        for length in 1...18 {
            for place in 0..<length {
                for left in UInt8.min ... .max {
                    // The same byte, what differs from it in one bit, and both cases.
                    for right in [left, left | 0x20, left & ~0x20] + (0..<8).map({ left ^ 1 << $0 }) {
                        var one = [UInt8](repeating: 0x62, count: length)
                        var other = one
                        (one[place], other[place]) = (left, right)
                        let expected = ByteClass.lower(left) == ByteClass.lower(right)
                        let found = one.withUnsafeBufferPointer { one in
                            other.withUnsafeBufferPointer { one.equalsIgnoringCase($0) }
                        }
                        if found != expected { faults.append("\(one), \(other): \(found)") }
                    }
                }
            }
        }
        #expect(faults.isEmpty)
    }

    @Test("each known field name is read in any case, and none that differs from it in one letter or its length")
    func fieldNames() {
        let names: [(String, FieldName)] = [
            ("connection", .connection), ("content-length", .contentLength), ("transfer-encoding", .transferEncoding),
            ("host", .host), ("keep-alive", .keepAlive), ("proxy-connection", .proxyConnection), ("te", .te),
            ("trailer", .trailer), ("upgrade", .upgrade), ("proxy-authenticate", .proxyAuthenticate),
            ("proxy-authorization", .proxyAuthorization), ("http2-settings", .http2Settings), ("expect", .expect),
            ("via", .via), ("forwarded", .forwarded), ("x-forwarded-", .xForwarded), ("x-forwarded-for", .xForwarded),
            ("x-forwarded-proto", .xForwarded), ("x-real-ip", .xRealIP), ("origin", .origin),
            ("sec-fetch-site", .secFetchSite), ("max-forwards", .maxForwards), ("lanyard-", .lanyard),
            ("lanyard-user", .lanyard), ("lanyard-capability", .lanyard), ("date", .date),
            ("proxy-status", .proxyStatus), ("www-authenticate", .wwwAuthenticate), ("location", .location),
            ("content-location", .contentLocation), ("set-cookie", .setCookie), ("link", .link), ("refresh", .refresh),
            ("alt-svc", .altSvc), ("sourcemap", .reference), ("x-sourcemap", .reference),
            ("operation-location", .reference), ("azure-asyncoperation", .reference),
            ("service-worker-allowed", .reference), ("destination", .destination), ("if", .condition),
            ("x-goog-upload-url", .reference), ("x-goog-upload-control-url", .reference),
            ("odata-entityid", .reference),
            ("x-storage-url", .reference), ("hx-redirect", .reference), ("hx-location", .reference),
            ("hx-push-url", .reference), ("hx-replace-url", .reference), ("x-inertia-location", .reference),
            ("turbolinks-location", .reference), ("x-pjax-url", .reference), ("x-up-location", .reference),
            ("mcp-x", .mcp), ("mcp-id", .mcp), ("mcp-tag", .mcp), ("mcp-name", .mcp), ("mcp-param", .mcp),
            ("mcp-method", .mcp), ("mcp-session", .mcp), ("mcp-session-i", .mcp), ("mcp-session-id", .mcp),
            ("mcp-param-region", .mcp), ("mcp-param-tenants", .mcp), ("mcp-param-projects", .mcp),
            ("mcp-param-workspace", .mcp), ("mcp-protocol-version", .mcp), ("mcp-param-environment1", .mcp),
        ]
        let prefixes: [FieldName: Int] = [.lanyard: 8, .xForwarded: 12, .mcp: 4]
        func read(_ name: [UInt8]) -> FieldName { name.withUnsafeBufferPointer { FieldName.of($0) } }
        for (text, name) in names {
            let bytes = Array(text.utf8)
            #expect(read(bytes) == name && read(Array(text.uppercased().utf8)) == name, "\(text)")
            #expect(read(bytes.dropLast()) != name || prefixes[name] != nil, "\(text) cut")
            for place in 0..<(prefixes[name] ?? bytes.count) {
                var other = bytes
                other[place] ^= 1
                #expect(read(other) == .other, "\(String(decoding: other, as: UTF8.self))")
            }
        }
        let found = Set(names.map(\.1.rawValue))
        #expect((1...).prefix { FieldName(rawValue: $0) != nil }.allSatisfy(found.contains))
    }

    @Test("plain names are letters, digits and hyphens")
    func plainNames() {
        for byte in UInt8.min ... .max {
            #expect(ByteClass.isPlainName(byte) == (ByteClass.isAlphanumeric(byte) || byte == UInt8(ascii: "-")))
        }
    }

    @Test("nanoseconds of durations of all sizes and both signs")
    func nanoseconds() {
        #expect(Duration.zero.nanoseconds == 0)
        for seconds: Int64 in [0, 1, 17, 18, 19, 60, 90, 3600, 86_400, 5_184_000, 9_000_000_000, 9_223_372_036] {
            for part: Int64 in [0, 1, 999_999_999, 123_456_789] where seconds < 9_223_372_036 || part < 800_000_000 {
                let duration = Duration.seconds(seconds) + .nanoseconds(part)
                #expect(duration.nanoseconds == seconds * 1_000_000_000 + part)
                #expect((.zero - duration).nanoseconds == -(seconds * 1_000_000_000 + part))
            }
        }
        #expect(Duration.seconds(Int64.max).nanoseconds == .max && Duration.seconds(Int64.min).nanoseconds == .min)
        #expect(Duration(secondsComponent: 0, attosecondsComponent: 999_999_999).nanoseconds == 0)
        #expect(Duration(secondsComponent: 30, attosecondsComponent: 1_999_999_999).nanoseconds == 30_000_000_001)
    }
}
