/// Field names that Lanyard reads, writes or drops. All others are `.other`.
package enum FieldName: UInt8, Sendable {
    case other
    case connection, contentLength, transferEncoding, host, keepAlive, proxyConnection, te, trailer, upgrade
    case proxyAuthenticate, proxyAuthorization, http2Settings
    case expect, via, forwarded, xForwarded, xRealIP, origin, secFetchSite, maxForwards, lanyard
    case date, proxyStatus, wwwAuthenticate
    case location, contentLocation, setCookie, link, refresh, altSvc
    /// Another field of a response whose value is one URI reference (http-forwarding.md 12.6).
    case reference
    case destination
    /// `If` (RFC 4918 §10.4).
    case condition
    /// `Mcp-*` (Model Context Protocol, Streamable HTTP).
    case mcp

    /// The case of a name, compared without regard to ASCII case.
    @inline(__always)
    package static func of(_ name: Bytes) -> FieldName {
        guard let first = name.first, firstLetters(ofLength: name.count) &>> UInt32(first & 31) & 1 == 1
        else { return .other }
        return compare(name)
    }

    /// With which letters the names of a length begin: a bit for each letter, by its lowest five bits, which both cases share.
    /// Most names of a head are none of these.
    @inline(__always)
    private static func firstLetters(ofLength length: Int) -> UInt32 {
        switch length {
        case 2: letters("ti")
        case 3: letters("v")
        case 4: letters("hdl")
        case 5: letters("m")
        case 6: letters("eom")
        case 7: letters("utram")
        case 9: letters("flmxs")
        case 10: letters("cklmsx")
        case 11: letters("dhlmx")
        case 12: letters("mplx")
        case 14: letters("chlmoxs")
        case 16: letters("cwmplx")
        case 17: letters("tlmx")
        case 18: letters("omplx")
        case 19: letters("lmptx")
        case 20: letters("almx")
        case 22: letters("slmx")
        case 8...: letters("lmx")
        default: 0
        }
    }

    @inline(__always)
    private static func letters(_ text: StaticString) -> UInt32 {
        var bits: UInt32 = 0
        for index in 0..<text.utf8CodeUnitCount { bits |= 1 &<< UInt32(text.utf8Start[index] & 31) }
        return bits
    }

    private static func compare(_ name: Bytes) -> FieldName {
        switch name.count {
        case 2: name.equals(lowered: "te") ? .te : name.equals(lowered: "if") ? .condition : .other
        case 3: name.equals(lowered: "via") ? .via : .other
        case 4:
            name.equals(lowered: "host")
                ? .host : name.equals(lowered: "date") ? .date : name.equals(lowered: "link") ? .link : .other
        case 6:
            name.equals(lowered: "expect") ? .expect : name.equals(lowered: "origin") ? .origin : ofOther(name)
        case 7:
            name.equals(lowered: "upgrade")
                ? .upgrade
                : name.equals(lowered: "trailer")
                    ? .trailer
                    : name.equals(lowered: "refresh")
                        ? .refresh : name.equals(lowered: "alt-svc") ? .altSvc : ofOther(name)
        case 8: name.equals(lowered: "location") ? .location : ofOther(name)
        case 9:
            name.equals(lowered: "forwarded")
                ? .forwarded
                : name.equals(lowered: "x-real-ip")
                    ? .xRealIP : ofOther(name)
        case 10:
            name.equals(lowered: "connection")
                ? .connection
                : name.equals(lowered: "keep-alive")
                    ? .keepAlive : name.equals(lowered: "set-cookie") ? .setCookie : ofOther(name)
        case 11:
            name.equals(lowered: "destination") ? .destination : ofOther(name)
        case 12:
            name.equals(lowered: "max-forwards")
                ? .maxForwards : name.equals(lowered: "proxy-status") ? .proxyStatus : ofOther(name)
        case 14:
            name.equals(lowered: "content-length")
                ? .contentLength
                : name.equals(lowered: "http2-settings")
                    ? .http2Settings : name.equals(lowered: "sec-fetch-site") ? .secFetchSite : ofOther(name)
        case 16:
            name.equals(lowered: "www-authenticate")
                ? .wwwAuthenticate
                : name.equals(lowered: "proxy-connection")
                    ? .proxyConnection : name.equals(lowered: "content-location") ? .contentLocation : ofOther(name)
        case 17: name.equals(lowered: "transfer-encoding") ? .transferEncoding : ofOther(name)
        case 18:
            name.equals(lowered: "proxy-authenticate")
                ? .proxyAuthenticate : ofOther(name)
        case 19: name.equals(lowered: "proxy-authorization") ? .proxyAuthorization : ofOther(name)
        case 5...: ofOther(name)
        default: .other
        }
    }

    private static func ofOther(_ name: Bytes) -> FieldName {
        if isReference(name) { return .reference }
        return switch ByteClass.lower(name[0]) {
        case UInt8(ascii: "l"): name.hasPrefix(lowered: "lanyard-") ? .lanyard : .other
        case UInt8(ascii: "m"): name.hasPrefix(lowered: "mcp-") ? .mcp : .other
        case UInt8(ascii: "x"): name.hasPrefix(lowered: "x-forwarded-") ? .xForwarded : .other
        default: .other
        }
    }

    /// The fields of a response whose value is one URI reference, apart from `Location` (http-forwarding.md 12.6).
    private static func isReference(_ name: Bytes) -> Bool {
        switch name.count {
        case 9: name.equals(lowered: "sourcemap")
        case 10: name.equals(lowered: "x-pjax-url")
        case 11:
            name.equals(lowered: "x-sourcemap") || name.equals(lowered: "hx-redirect")
                || name.equals(lowered: "hx-location") || name.equals(lowered: "hx-push-url")
        case 13: name.equals(lowered: "x-storage-url") || name.equals(lowered: "x-up-location")
        case 14: name.equals(lowered: "odata-entityid") || name.equals(lowered: "hx-replace-url")
        case 17: name.equals(lowered: "x-goog-upload-url")
        case 18: name.equals(lowered: "operation-location") || name.equals(lowered: "x-inertia-location")
        case 19: name.equals(lowered: "turbolinks-location")
        case 20: name.equals(lowered: "azure-asyncoperation")
        case 22: name.equals(lowered: "service-worker-allowed")
        case 25: name.equals(lowered: "x-goog-upload-control-url")
        default: false
        }
    }

    /// A field in which the client states which proxies relayed the request (http-forwarding.md 18.2).
    package var isForwarding: Bool { self == .forwarded || self == .xForwarded || self == .xRealIP }
}

extension FieldName {
    /// The case of a name after each byte that is no letter or digit was replaced by `-`.
    package static func of(canonical name: Bytes) -> FieldName {
        withUnsafeTemporaryAllocation(of: UInt8.self, capacity: max(name.count, 1)) { room in
            for index in 0..<name.count {
                room[index] = ByteClass.canonical(name[index])
            }
            return of(Bytes(rebasing: room[0..<name.count]))
        }
    }
}
