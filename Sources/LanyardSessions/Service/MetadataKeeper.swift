import LanyardFoundations
import LanyardSessionInterface

/// Stores what authorization servers say of their endpoints, and gives it to their services after a restart. Belongs to the queue of
/// `SessionService`, which owns it.
final class MetadataKeeper: @unchecked Sendable {
    /// Metadata that says the same is stored again after so long, so that its time stays right.
    private static let renewInterval = Duration.seconds(3600)

    private unowned let environment: any SessionEnvironment
    /// What the store has, as far as this process knows.
    private var known: [StoredMetadata]
    /// The services that have it.
    private var owners: [ObjectIdentifier: any MetadataOwner] = [:]

    /// - Parameter known: what the store held when it was opened.
    init(_ known: [StoredMetadata], environment: any SessionEnvironment) {
        self.known = known
        self.environment = environment
    }

    /// Serves these identities from now on, before their first call. One that it has served before is left alone.
    func serve(_ identities: some Sequence<ConfiguredIdentity>) {
        environment.loop.assertIsCurrent()
        let former = owners
        owners = [:]
        for identity in identities {
            guard case .service(let service as any MetadataOwner, _) = identity.kind else { continue }
            owners[ObjectIdentifier(service)] = service
            guard former[ObjectIdentifier(service)] == nil else { continue }
            service.keepMetadata(known) { [weak self, weak environment] metadata in
                environment?.loop.post { [weak self] in self?.save(metadata) }
            }
        }
    }

    /// A write that fails costs a request after a restart.
    private func save(_ metadata: StoredMetadata) {
        environment.loop.assertIsCurrent()
        guard !environment.isStopped else { return }
        let former = known.first { $0.isOfSameServer(as: metadata) }
        if var same = former, metadata.readAt - same.readAt < Self.renewInterval {
            same.readAt = metadata.readAt
            if same == metadata { return }
        }
        known.removeAll { $0.isOfSameServer(as: metadata) }
        known.append(metadata)
        environment.commit(.saveMetadata(metadata)) { _ in }
    }
}
