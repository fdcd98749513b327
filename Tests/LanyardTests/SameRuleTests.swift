import LanyardConfiguration
import LanyardRequestPath
import Testing

/// Rules that two modules have, each in a form of its own (architecture.md 3.6): both give the same.
@Suite struct SameRuleTests {
    @Test("the configuration and the request path have the same characters of tokens (RFC 9110 5.6.2)")
    func tokens() {
        for byte in UInt8.min...UInt8.max {
            let text = byte < 0x80 ? String(UnicodeScalar(byte)) : String(decoding: [0xc2, byte], as: UTF8.self)
            #expect(FieldText.isToken(text) == ByteClass.isToken(byte), "\(byte)")
        }
    }

    @Test("no route may set a field that the request path writes or drops itself")
    func reservedFields() {
        let names = [
            "connection", "content-length", "transfer-encoding", "host", "keep-alive", "proxy-connection", "te",
            "trailer",
            "upgrade", "proxy-authenticate", "proxy-authorization", "http2-settings", "expect", "via", "lanyard-user",
        ]
        for name in names {
            #expect(FieldText.isReserved(name), "\(name)")
            #expect(Array(name.utf8).withUnsafeBufferPointer { FieldName.of($0) } != .other, "\(name)")
        }
        let known = (FieldName.other.rawValue...UInt8.max).prefix { FieldName(rawValue: $0) != nil }.compactMap(
            FieldName.init)
        let ownOnes = known.filter { $0.refusesConfusableNames || $0 == .expect || $0 == .via || $0 == .lanyard }
        #expect(ownOnes.count == names.count)
    }
}
