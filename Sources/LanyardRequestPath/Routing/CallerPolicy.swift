import Glibc
import LanyardFoundations
import LanyardSettings

/// Who may send requests on one listener, beside what its address and permissions admit (http-requests.md 4.4, security.md T1, T4).
///
/// The capability itself can change while Lanyard runs, so each shard has its own copy (`Shard.capabilities`). Here is its place there.
package struct CallerPolicy: Sendable {
    /// The place of the listener's capability among those of a shard; nil: the listener asks for none.
    private let capabilityIndex: Int?
    private let requiredField: [UInt8]?
    private let peers: ListenerSettings.Peers?

    /// Checks nothing.
    package static let unrestricted = CallerPolicy(ListenerSettings(address: .unix(path: "")), index: 0)

    /// - Parameter index: of the listener.
    package init(_ settings: ListenerSettings, index: Int) {
        capabilityIndex = settings.capabilityFile == nil ? nil : index
        requiredField = settings.requiredHeader.map { Array($0.utf8) }
        peers = settings.peers
    }

    /// Whether the client at the other end of a unix socket may connect. Asked once for each connection.
    func admits(_ descriptor: CInt) -> Bool {
        guard let peers else { return true }
        let peer = PeerCredentials(of: descriptor)
        guard let uid = peer.uid, let gid = peer.gid else { return false }
        if peers.uids.contains(uid) || peers.gids.contains(gid) { return true }
        // The kernel is asked for the other groups only if one of them could help.
        return !peers.gids.isEmpty && PeerCredentials.groups(of: descriptor).contains(where: peers.gids.contains)
    }

    /// Whether requests carry something that is checked.
    var checksRequests: Bool { capabilityIndex != nil || requiredField != nil }

    /// What a request lacks.
    enum Refusal { case capability, requiredField }

    /// Checks a request's fields. nil: it may pass.
    ///
    /// - Parameter capabilities: of the shard. A capability that cannot be read admits no request.
    func check(_ bytes: Bytes, _ lines: FieldLines, capabilities: [Secret?]) -> Refusal? {
        if let capabilityIndex, !carries(capabilities[capabilityIndex], bytes, lines) { return .capability }
        if let requiredField {
            let isThere = (0..<lines.count).contains { index in
                requiredField.withUnsafeBufferPointer { $0.equalsIgnoringCase(lines.name(index, in: bytes)) }
            }
            if !isThere { return .requiredField }
        }
        return nil
    }

    /// Whether the request has exactly one `Lanyard-Capability` field, and its value is the capability.
    private func carries(_ capability: Secret?, _ bytes: Bytes, _ lines: FieldLines) -> Bool {
        var isRight = false
        var count = 0
        for index in 0..<lines.count where lines[index].name == .lanyard {
            guard lines.name(index, in: bytes).equals(lowered: "lanyard-capability") else { continue }
            count += 1
            isRight = capability?.equals(UnsafeRawBufferPointer(lines.value(index, in: bytes))) ?? false
        }
        return count == 1 && isRight
    }
}
