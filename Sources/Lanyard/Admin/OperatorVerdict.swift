/// What the listener does with a request after its head has been read.
enum OperatorDecision {
    /// Responds at once. A body is not read; the connection then closes.
    case response(OperatorResponse)
    /// Responds after a delay. Nothing is read from this connection meanwhile.
    case delayed(OperatorResponse, Duration)
    /// Reads the body, then performs the call.
    case call(OperatorCall)
}
