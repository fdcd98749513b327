import COpenSSL

/// The reply of an upstream to the key of a WebSocket's handshake (RFC 6455 §4.2.2).
enum WebSocketReply {
    /// The value of `Sec-WebSocket-Accept`.
    ///
    /// - Parameter head: of the request.
    static func accepting(_ head: String) -> String {
        let key = head.split(separator: "\r\n").first { $0.lowercased().hasPrefix("sec-websocket-key: ") }?.dropFirst(
            19)
        let text = Array(((key ?? "") + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11").utf8)
        var digest = [UInt8](repeating: 0, count: Int(SHA_DIGEST_LENGTH))
        SHA1(text, text.count, &digest)
        var encoded = [UInt8](repeating: 0, count: 32)
        EVP_EncodeBlock(&encoded, digest, CInt(digest.count))
        return String(decoding: encoded.prefix { $0 != 0 }, as: UTF8.self)
    }

    /// The whole 101.
    static func granting(_ head: String, _ fields: String = "") -> String {
        "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
            + "Sec-WebSocket-Accept: \(accepting(head))\r\n\(fields)\r\n"
    }
}
