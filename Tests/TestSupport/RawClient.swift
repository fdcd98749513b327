/// A blocking client that sends exactly the given bytes and returns exactly the received ones. Every call has a `Patience` of its own.
package final class RawClient: @unchecked Sendable {
    /// Used by one thread at a time, like the reader.
    package let socket: RawSocket
    /// Reads the received bytes.
    package let reader: RawReader

    /// Connects.
    ///
    /// - Parameters:
    ///   - source: the last number of the local loopback address.
    ///   - receiveBuffer: bytes that the kernel keeps for reading, about; nil: the kernel's default.
    package init(
        _ endpoint: RawEndpoint, from source: UInt8? = nil, receiveBuffer: CInt? = nil
    ) throws {
        socket = try .connect(to: endpoint, from: source, receiveBuffer: receiveBuffer)
        reader = RawReader(socket)
    }

    /// Sends text as it is.
    package func send(_ text: String) throws { try socket.send(text.utf8) }
    /// Sends bytes as they are.
    package func send(_ bytes: [UInt8]) throws { try socket.send(bytes) }
    /// Bytes that have arrived and are not read.
    package var waitingBytes: Int { socket.waitingBytes }
    /// Ends the sending side. The response can still be read.
    package func halfClose() { socket.halfClose() }
    /// Ends the connection in order.
    package func close() { socket.close() }
    /// Ends the connection with RST.
    package func reset() { socket.reset() }

    /// Whether unread bytes wait, or the server has ended.
    package var hasInput: Bool { reader.hasInput }

    /// Exactly `count` bytes.
    package func read(_ count: Int) throws -> [UInt8] {
        try reader.read(count)
    }

    /// Everything up to the end of the stream.
    package func readToEnd() throws -> [UInt8] {
        try reader.readToEnd()
    }

    /// The next final response. Interim ones are skipped.
    package func response(to method: String = "GET") throws -> RawMessage {
        while true {
            let message = try reader.readResponse(to: method)
            if message.status >= 200 || message.status == 101 { return message }
        }
    }

    /// Sends a request with a Host field and, for a body, its Content-Length. Reads the response. The connection stays open.
    package func exchange(
        _ method: String, _ target: String, host: String = "localhost", fields: [(String, String)] = [],
        body: [UInt8]? = nil
    ) throws -> RawMessage {
        var head = "\(method) \(target) HTTP/1.1\r\nHost: \(host)\r\n"
        for (name, value) in fields { head += "\(name): \(value)\r\n" }
        if let body { head += "Content-Length: \(body.count)\r\n" }
        try socket.send(Array((head + "\r\n").utf8) + (body ?? []))
        return try response(to: method)
    }

    /// One request on a new connection. `Host` is the endpoint itself.
    package static func ask(
        _ endpoint: RawEndpoint, _ method: String, _ target: String, fields: [(String, String)] = [],
        body: String? = nil
    ) async throws -> RawMessage {
        let host = if case .unix = endpoint { "localhost" } else { endpoint.description }
        let client = try RawClient(endpoint)
        defer { client.close() }
        return try client.exchange(method, target, host: host, fields: fields, body: body.map { Array($0.utf8) })
    }
}
