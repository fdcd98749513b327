/// Streams that are kept for further requests, so that one costs no allocation. Of one shard, whose queue its users check.
final class SpareStreams {
    private static let countMax = 256

    private var list: [UpstreamStream] = []

    func take() -> UpstreamStream? { list.popLast() }

    /// The stream is closed, and no exchange uses it.
    func keep(_ stream: UpstreamStream) {
        stream.beginAnew()
        if list.count < Self.countMax { list.append(stream) }
    }

    func releaseAll() { list.removeAll() }
}
