/// What becomes of a request whose head has been read.
enum OperatorDecision {
    /// Answered at once. A body is not read: where it ends does not matter, since the connection ends, too.
    case response(OperatorResponse)
    /// The same, but after a while; nothing else is read from this connection meanwhile.
    case delayed(OperatorResponse, Duration)
    /// Its body is read, then it is carried out.
    case call(OperatorCall)
}
