/// HTTP/2 as the status shows it: the sums of all shards.
package struct HTTP2Report: Equatable, Sendable {
    /// What the program has with clients, or with upstreams.
    package struct Side: Equatable, Sendable {
        /// Open ones.
        package var connections = 0
        /// Streams that are open.
        package var openStreams = 0
        /// Streams so far.
        package var streams = 0
        /// Streams that the other side has reset, or whose reset it has provoked.
        package var peerResets = 0
        /// Streams that were refused: those of clients by Lanyard, others by upstreams.
        package var refusals = 0
        /// Connections that have ended because the other side has passed a limit, by the limit's name. Limits that were never passed
        /// are left out.
        package var limitsPassed: [String: Int] = [:]

        package init() {}

        /// Adds what one shard has counted.
        mutating func add(_ other: Side) {
            connections += other.connections
            openStreams += other.openStreams
            streams += other.streams
            peerResets += other.peerResets
            refusals += other.refusals
            limitsPassed.merge(other.limitsPassed) { $0 + $1 }
        }
    }

    /// Streams that clients have opened.
    package var clients = Side()
    /// Streams that Lanyard has opened.
    package var upstreams = Side()
    /// Connections to upstreams that have ended by an error, by reason. Reasons that never occurred are left out.
    package var upstreamEnds: [String: Int] = [:]
    /// Routes whose upstream has asked for HTTP/1.1 (H4).
    package var downgradedRoutes: [String] = []

    package init() {}
}
