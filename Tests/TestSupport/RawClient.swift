/// A blocking client that sends exactly the given bytes and returns exactly the received ones. Every call has a time limit.
///
/// In a process that also runs an `Emulator`, call it inside `offPool`, or use `RawClient.ask`.
package final class RawClient: @unchecked Sendable {
    /// Used by one thread at a time, like the reader.
    package let socket: RawSocket
    /// Reads the received bytes.
    package let reader: RawReader

    /// The default time limit of a call. It is longer for a sanitized build, which is many times slower.
    package static let timeout: Duration = Sanitizer.isOn ? .seconds(60) : .seconds(30)

    /// Connects.
    ///
    /// - Parameter source: the last number of the local loopback address.
    package init(
        _ endpoint: RawEndpoint, from source: UInt8? = nil, within limit: Duration = RawClient.timeout
    ) throws {
        socket = try .connect(to: endpoint, from: source, within: limit)
        reader = RawReader(socket)
    }

    /// Sends text as it is.
    package func send(_ text: String) throws { try socket.send(text.utf8) }
    /// Sends bytes as they are.
    package func send(_ bytes: [UInt8]) throws { try socket.send(bytes) }
    /// Ends the sending side. The response can still be read.
    package func halfClose() { socket.halfClose() }
    /// Ends the connection in order.
    package func close() { socket.close() }
    /// Ends the connection with RST.
    package func reset() { socket.reset() }

    /// Exactly `count` bytes.
    package func read(_ count: Int, within limit: Duration = RawClient.timeout) throws -> [UInt8] {
        try reader.read(count, within: limit)
    }

    /// Everything up to the end of the stream.
    package func readToEnd(within limit: Duration = RawClient.timeout) throws -> [UInt8] {
        try reader.readToEnd(within: limit)
    }

    /// The next final response. Interim ones are skipped.
    package func response(to method: String = "GET", within limit: Duration = RawClient.timeout) throws -> RawMessage {
        while true {
            let message = try reader.readResponse(to: method, within: limit)
            if message.status >= 200 || message.status == 101 { return message }
        }
    }

    /// Sends a request with a Host field and, for a body, its Content-Length. Reads the response. The connection stays open.
    package func exchange(
        _ method: String, _ target: String, host: String = "localhost", fields: [(String, String)] = [],
        body: [UInt8]? = nil, within limit: Duration = RawClient.timeout
    ) throws -> RawMessage {
        var head = "\(method) \(target) HTTP/1.1\r\nHost: \(host)\r\n"
        for (name, value) in fields { head += "\(name): \(value)\r\n" }
        if let body { head += "Content-Length: \(body.count)\r\n" }
        try socket.send(Array((head + "\r\n").utf8) + (body ?? []), within: limit)
        return try response(to: method, within: limit)
    }

    /// One request on a new connection, off the cooperative pool. `Host` is the endpoint itself.
    package static func ask(
        _ endpoint: RawEndpoint, _ method: String, _ target: String, fields: [(String, String)] = [],
        body: String? = nil, within limit: Duration = RawClient.timeout
    ) async throws -> RawMessage {
        let host = if case .unix = endpoint { "localhost" } else { endpoint.description }
        return try await offPool {
            let client = try RawClient(endpoint)
            defer { client.close() }
            return try client.exchange(
                method, target, host: host, fields: fields, body: body.map { Array($0.utf8) }, within: limit)
        }
    }
}
