/// What a second sending of a request needs (http-connections.md 16.5, http-forwarding.md 17): the copy of its body, and the refused
/// response that is held until then.
///
/// It does no I/O. `RefusedResponse` decides, and `ClientExchange` acts. The exchange checks the queue.
struct RequestReplay: ~Copyable {
    private var body: ReplayBody
    /// The response that a replay may replace. Nothing is read from the upstream while it is held.
    private(set) var held: HeldResponse?
    /// Why the relayed response was not replaced by a replay.
    private(set) var obstacle: ReplayObstacle?

    /// - Parameter budget: counts the copy.
    init(budget: BufferBudget) { body = ReplayBody(budget: budget) }

    /// A request is forwarded.
    ///
    /// - Parameter bytesMax: `replay_body_max`.
    mutating func begin(_ framing: BodyFraming, bytesMax: Int) {
        body.begin(framing, bytesMax: bytesMax)
        obstacle = nil
    }

    // MARK: The copy of the body

    /// All body bytes that have arrived are kept.
    var holdsBody: Bool { body.isWhole }
    var bodyBytes: Int { body.count }
    /// The copy uses memory of its own.
    var hasMemory: Bool { body.hasMemory }

    /// Whether `amount` more body bytes can be kept.
    mutating func makeRoom(for amount: Int) -> Bool { body.makeRoom(for: amount) }

    /// Whether the first `amount` bytes of the body, which lie behind the head, will be kept.
    func keepsWhole(_ amount: Int) -> Bool { body.keepsWhole(amount) }

    /// Keeps body bytes, as `ReplayBody.add`.
    @inline(__always)
    mutating func keep(_ data: UnsafeRawBufferPointer, at place: Int?, in buffer: RequestBuffer?) {
        body.add(data, at: place, in: buffer)
    }

    /// Keeps the first bytes of the body where they lie in the request's buffer. Requires `keepsWhole`.
    mutating func keepFirst(_ place: Range<Int>) { body.keepFirst(place) }

    func bytes(from offset: Int, in buffer: Bytes) -> (Bytes, Bytes) { body.bytes(from: offset, in: buffer) }

    mutating func discardBody() { body.discard() }

    // MARK: The held response

    mutating func hold(_ response: HeldResponse) { held = response }

    mutating func endHold() { held = nil }

    mutating func record(_ obstacle: ReplayObstacle) { self.obstacle = obstacle }
}
