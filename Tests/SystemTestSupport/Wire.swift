import Foundation
import Glibc
import TestSupport

/// One end of a connection, in raw bytes.
///
/// One call at a time. Ends with the value.
final class Wire: @unchecked Sendable {
    private let socket: RawSocket
    private let reader: RawReader

    /// - Parameter socket: not used elsewhere.
    init(_ socket: RawSocket) {
        self.socket = socket
        reader = RawReader(socket)
    }

    deinit { socket.close() }

    /// Connects.
    ///
    /// - Parameter receiveBuffer: the kernel keeps about so many bytes that are not read; nil leaves it the choice.
    static func connect(to endpoint: RawEndpoint, receiveBuffer: CInt? = nil) async throws -> Wire {
        Wire(try .connect(to: endpoint, receiveBuffer: receiveBuffer))
    }

    /// The bytes of a text whose characters are bytes: U+0080 is one byte, 0x80.
    static func bytes(_ text: String) -> [UInt8] { text.unicodeScalars.map { UInt8($0.value) } }

    /// Text of bytes, as `bytes` reads it.
    ///
    /// By plain loops over memory: the steps of a sequence and of a string's scalars are calls in a debug build.
    static func text(_ bytes: some Collection<UInt8>) -> String {
        let bytes = Array(bytes)
        return String(unsafeUninitializedCapacity: 2 * bytes.count) { text in
            var (index, count) = (0, 0)
            while index < bytes.count {
                let byte = bytes[index]
                if byte < 0x80 {
                    text[count] = byte
                } else {
                    text[count] = 0xC0 | byte >> 6
                    count += 1
                    text[count] = 0x80 | byte & 0x3F
                }
                (index, count) = (index + 1, count + 1)
            }
            return count
        }
    }

    /// Sends text as it is, one byte for each character.
    func send(_ text: String) async throws { try await send(Self.bytes(text)) }

    /// Sends bytes as they are.
    func send(_ bytes: [UInt8]) async throws {
        try socket.send(bytes)
    }

    /// Sends as many of `count` bytes as the kernel takes for now.
    ///
    /// - Returns: how many those are.
    func sendUntilFull(_ count: Int) async throws -> Int {
        try socket.sendUntilFull([UInt8](repeating: 7, count: count), times: 1)
    }

    /// Sends text, then a byte of urgent data, then more text.
    func send(_ text: String, urgent byte: UInt8, _ more: String) async throws {
        try socket.send(Self.bytes(text))
        guard socket.use({ Glibc.send($0, [byte], 1, CInt(MSG_OOB)) }) == 1 else {
            throw TestFailure("urgent data cannot be sent: errno \(errno)")
        }
        try socket.send(Self.bytes(more))
    }

    /// Sends text on this connection and at once some on another, with no hop from thread to thread between.
    func send(_ text: String, then other: Wire, _ more: String) async throws {
        try socket.send(Self.bytes(text))
        try other.socket.send(Self.bytes(more))
    }

    /// Takes a connection for each text, reads its request's head and responds with the text, all in one turn: Lanyard waits a second for
    /// what an upstream says to `Expect: 100-continue`, and then answers the client itself. Must have started before the request is sent.
    static func acceptAndRespond(_ texts: [String], on listener: RawSocket) async throws -> [(
        wire: Wire, head: String
    )] {
        try texts.map { text in
            guard let socket = listener.accept() else { throw TestFailure("no upstream connection was made") }
            let wire = Wire(socket)
            let head = Self.text(try wire.reader.readHead() ?? [])
            try wire.socket.send(bytes(text))
            return (wire, head)
        }
    }

    /// Sends byte by byte; without delay between two system calls the kernel may still join some.
    func drip(_ text: String) async throws {
        for byte in Self.bytes(text) { try socket.send([byte]) }
    }

    /// Whether unread bytes wait, or the other side has ended.
    var hasInput: Bool { reader.hasInput }

    /// The next response, an interim one too.
    func response(to method: String = "GET") async throws -> RawMessage {
        try reader.readResponse(to: method)
    }

    /// The next request as a server reads it; nil at the end.
    func request() async throws -> RawMessage? {
        try reader.readRequest()
    }

    /// A head with its empty line, as text.
    func head() async throws -> String {
        Self.text(try reader.readHead() ?? [])
    }

    /// Exactly so many bytes.
    func read(_ count: Int) async throws -> String {
        Self.text(try reader.read(count))
    }

    /// What comes until the other side's end, and whether that end was a reset.
    func rest() async throws -> (text: String, wasReset: Bool) {
        let (bytes, wasReset) = try reader.readToAnyEnd()
        return (Self.text(bytes), wasReset)
    }

    /// A request, or many, and the one response to the first.
    func ask(_ text: String, to method: String = "GET") async throws -> RawMessage {
        try await send(text)
        return try await response(to: method)
    }

    /// The port of our end.
    var localPort: UInt16 { socket.localPort }
    /// The port of the other side's end.
    var remotePort: UInt16 { socket.remotePort }

    /// Ends our direction.
    func halfClose() { socket.halfClose() }
    /// Ends the connection without a word to the other side.
    func vanish() throws { try socket.vanish() }
    /// Ends the connection in order; unread input makes it a reset.
    func close() { socket.close() }
    /// Ends the connection with a reset.
    func reset() { socket.reset() }
}
