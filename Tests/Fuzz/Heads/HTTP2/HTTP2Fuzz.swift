import CNGHTTP2
import LanyardRequestPath

/// Holds a session of HTTP/2, of either side, to its promises under everything that a peer may send, in every state that this side's
/// own frames bring about.
///
/// Cuts change nothing: not the events, nor the frames that are written, nor the end. Events come for streams that have begun and not
/// ended. What is written is what RFC 9113 lets this side write, is within the peer's windows, and means what was submitted. Each byte
/// that has come is given back to the connection's window. No memory is left behind.
final class HTTP2Fuzz: FuzzTarget {
    private let side: HTTP2Session.Side
    private let memory = HTTP2FuzzMemory()

    /// - Parameter side: the session's; its peer is the other one.
    init(_ side: HTTP2Session.Side) { self.side = side }

    func check(_ input: Bytes) throws(BrokenPromise) {
        let script = HTTP2Script(input, side)
        let before = lanyard_h2_bytes_in_use()
        try compare(script)
        try BrokenPromise.unless(lanyard_h2_bytes_in_use() == before, "a session has left memory behind")
    }

    private func compare(_ script: HTTP2Script) throws(BrokenPromise) {
        let whole = HTTP2Run(script, side, memory)
        try whole.perform(.whole)
        for pieces in [HTTP2Run.Pieces.pieces, .single] {
            let other = HTTP2Run(script, side, memory)
            try other.perform(pieces)
            try whole.compare(with: other)
        }
    }
}

/// What the runs of a head use in turn.
final class HTTP2FuzzMemory {
    let workspace: HTTP2Workspace
    /// Of a piece: no byte besides can be read.
    let pieces = GuardedRoom(capacity: 160 << 10)
    /// Of the frames that are made.
    let room = UnsafeMutableRawBufferPointer.allocate(byteCount: 64 << 10, alignment: 64)
    /// Bodies that this side sends.
    let body: UnsafePointer<UInt8>

    init() {
        guard let workspace = HTTP2Workspace() else { fatalError("no memory for a fuzz head") }
        self.workspace = workspace
        let body = UnsafeMutablePointer<UInt8>.allocate(capacity: 64 << 10)
        body.initialize(repeating: 0x62, count: 64 << 10)
        self.body = UnsafePointer(body)
    }

    deinit {
        room.deallocate()
        body.deallocate()
    }
}
