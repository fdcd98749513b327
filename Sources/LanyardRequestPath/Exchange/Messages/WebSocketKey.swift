import COpenSSL
import LanyardFoundations

/// The key of a WebSocket's handshake with an upstream, and the reply that proves that the upstream has understood it (RFC 6455 §4.1).
/// Lanyard has keys of its own for clients of HTTP/2, which have none (RFC 8441 §5).
enum WebSocketKey {
    /// Bytes of a key as text.
    static let count = 24
    static let name: StaticString = "sec-websocket-key"
    static let replyName: StaticString = "sec-websocket-accept"
    /// RFC 6455 §1.3.
    private static let suffix: StaticString = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"

    /// Calls `work` with another key.
    static func withFresh<Result>(_ work: (Bytes) -> Result) -> Result {
        let random = (UInt64.random(in: .min ... .max), UInt64.random(in: .min ... .max))
        return withUnsafeBytes(of: random) { withText(of: $0.assumingMemoryBound(to: UInt8.self), work) }
    }

    /// Whether the head of a 101 has the reply to this key.
    static func isAccepted(by lines: FieldLines, in bytes: Bytes, _ key: Bytes) -> Bool {
        var replies = 0
        var isRight = false
        for index in 0..<lines.count where lines.name(index, in: bytes).equals(lowered: replyName) {
            replies += 1
            isRight = withReply(to: key) { $0.elementsEqual(lines.value(index, in: bytes)) }
        }
        return replies == 1 && isRight
    }

    private static func withReply<Result>(to key: Bytes, _ work: (Bytes) -> Result) -> Result {
        let text = Bytes(start: suffix.utf8Start, count: suffix.utf8CodeUnitCount)
        return withUnsafeTemporaryAllocation(of: UInt8.self, capacity: key.count + text.count) { room in
            let rest = room[room.initialize(fromContentsOf: key)...].update(fromContentsOf: text)
            return withUnsafeTemporaryAllocation(of: UInt8.self, capacity: Int(SHA_DIGEST_LENGTH)) { digest in
                SHA1(room.baseAddress, rest, digest.baseAddress)
                return withText(of: Bytes(digest), work)
            }
        }
    }

    /// Calls `work` with the bytes in base64 (RFC 4648 §4).
    private static func withText<Result>(of bytes: Bytes, _ work: (Bytes) -> Result) -> Result {
        // The function ends its text with a zero.
        withUnsafeTemporaryAllocation(of: UInt8.self, capacity: (bytes.count + 2) / 3 * 4 + 1) { text in
            let count = Int(EVP_EncodeBlock(text.baseAddress, bytes.baseAddress, CInt(bytes.count)))
            return work(Bytes(rebasing: text[0..<count]))
        }
    }
}
