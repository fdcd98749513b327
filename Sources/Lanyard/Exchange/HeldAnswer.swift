/// The response that a `RefusedResponse` decides about: its head and the bytes that came with it. The rest is not read
/// meanwhile.
///
/// Belongs to the queue of its connection.
final class HeldResponse {
    /// How long an incomplete request body is waited for (http-rules.md 17.2).
    static let bodyWaitMax = Duration.seconds(1)

    let head: ResponseHead
    let table: FieldTable
    /// From the head's first byte on.
    var bytes: ByteQueue
    var decision: RefusedResponse
    /// The token that a replay is sent with.
    var token: AccessToken?
    /// A refresh was under way. If it brings no token, no other one is forced.
    var sawRenewal = false
    /// If the request body is incomplete: how many of its bytes were sent upstream. Bytes that arrive while the
    /// response is held are only kept.
    let bodyBytesSent: Int?

    /// - Parameter budget: counts the held bytes.
    init(
        _ head: ResponseHead, _ table: FieldTable, _ bytes: Bytes, _ decision: RefusedResponse, bodyBytesSent: Int?,
        budget: BufferBudget
    ) {
        self.bytes = ByteQueue(budget: budget)
        self.head = head
        self.table = table
        self.decision = decision
        self.bodyBytesSent = bodyBytesSent
        self.bytes.append(bytes)
    }
}
