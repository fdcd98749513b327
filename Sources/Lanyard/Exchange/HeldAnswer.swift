/// The answer that a `RefusedResponse` decides about: its head and what has come behind it. The rest is not read meanwhile.
///
/// Belongs to the queue of its connection.
final class HeldResponse {
    /// How long a body that has not ended yet is waited for (http-rules.md 17.2).
    static let bodyWaitMax = Duration.seconds(1)

    let head: ResponseHead
    let table: FieldTable
    /// From the head's first byte on.
    var bytes: ByteQueue
    var answer: RefusedResponse
    /// The token that a replay will carry.
    var token: AccessToken?
    /// A refresh was seen under way: if it brings none, no other one is forced.
    var sawRenewal = false
    /// Of a body that still comes: how many bytes the upstream got before. What comes while the answer is held is only kept.
    let bodyBytesSent: Int?

    /// - Parameter budget: where its bytes are counted.
    init(
        _ head: ResponseHead, _ table: FieldTable, _ bytes: Bytes, _ answer: RefusedResponse, bodyBytesSent: Int?,
        budget: BufferBudget
    ) {
        self.bytes = ByteQueue(budget: budget)
        self.head = head
        self.table = table
        self.answer = answer
        self.bodyBytesSent = bodyBytesSent
        self.bytes.append(bytes)
    }
}
