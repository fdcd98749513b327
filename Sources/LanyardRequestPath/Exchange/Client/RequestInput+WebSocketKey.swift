import LanyardFoundations

extension RequestInput {
    /// The key that a bridged request goes with; empty: it has none. Valid while the head is.
    var webSocketKey: Bytes {
        guard let line = webSocketKeyLine, let buffer else { return Bytes(start: nil, count: 0) }
        return line.value(in: buffer.bytes)
    }

    /// A bridged request is about to be sent: each connection gets a key of its own.
    func renewWebSocketKey() {
        guard head.traits.contains(.bridged), let line = webSocketKeyLine, let buffer else { return }
        let place = Int(line.valueStart)
        WebSocketKey.withFresh { buffer.replace(place..<place + WebSocketKey.count, by: $0) }
    }

    private var webSocketKeyLine: FieldLine? {
        guard let (bytes, lines) = headBytes else { return nil }
        for index in 0..<lines.count where lines.name(index, in: bytes).equals(lowered: WebSocketKey.name) {
            return lines[index]
        }
        return nil
    }
}
