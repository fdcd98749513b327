/// A stream in the lists of its connection.
protocol ListedStream: AnyObject {
    /// Its index among those that are open, or -1.
    var place: Int { get set }
    /// It is among those whose bodies wait for a window, or for the socket.
    var isStalled: Bool { get set }
    /// All bytes that were handed on are in frames.
    var isFramed: Bool { get }
    /// Removes from its queue what the codec has made into frames since.
    func takeFramed()
}

extension Array where Element: ListedStream {
    mutating func add(_ stream: Element) {
        stream.place = count
        append(stream)
    }

    /// Removes a stream of the list. The last one gets its place, so that the cost is the same for any number.
    mutating func take(_ stream: Element) {
        let last = removeLast()
        if last !== stream {
            self[stream.place] = last
            last.place = stream.place
        }
        stream.place = -1
    }

    /// Removes the stalled streams whose bodies are in frames by now.
    mutating func takeResumed() -> [Element] {
        guard !isEmpty else { return [] }
        var resumed: [Element] = []
        removeAll { stream in
            stream.takeFramed()
            guard stream.isFramed else { return false }
            stream.isStalled = false
            resumed.append(stream)
            return true
        }
        return resumed
    }
}
