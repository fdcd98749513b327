import LanyardFoundations
import LanyardSettings

/// An authorization server's metadata as the store keeps it, so that a call after a restart needs no discovery (RFC 8414 §2).
package struct StoredMetadata: Equatable, Sendable {
    /// At most so many are stored: the oldest give way.
    package static let countMax = 64
    /// Metadata with a longer URL is not stored. It is asked for again after a restart.
    package static let urlBytesMax = 1024

    /// As it is configured.
    package var issuer: String
    /// Below which the metadata was asked for.
    package var url: String
    /// When the server sent it, by the wall clock.
    package var readAt: WallTime
    package var endpoints: OAuthEndpoints
    /// Endpoints for calls with a client certificate (RFC 8705 §5).
    package var aliases: OAuthEndpoints
    /// RFC 9126 §5.
    package var requiresPushedAuthorization = false
    /// Each response to the browser names the issuer (RFC 9207 §3).
    package var sendsIssuer = false

    package init(issuer: String, url: String, readAt: WallTime, endpoints: OAuthEndpoints, aliases: OAuthEndpoints) {
        self.issuer = issuer
        self.url = url
        self.readAt = readAt
        self.endpoints = endpoints
        self.aliases = aliases
    }

    /// Of the same server. There is one in the store.
    package func isOfSameServer(as other: StoredMetadata) -> Bool { issuer == other.issuer && url == other.url }

    /// The store can hold it.
    package var isStorable: Bool {
        ([issuer, url] + endpoints.all + aliases.all).allSatisfy { $0.utf8.count <= Self.urlBytesMax }
    }
}

/// A service that learns its endpoints from its server. The store keeps them over a restart.
package protocol MetadataOwner: AnyObject, Sendable {
    /// Called once, before the first call of the service.
    ///
    /// - Parameters:
    ///   - stored: what the store holds, of all servers.
    ///   - save: called on any queue with metadata that the server has sent.
    func keepMetadata(_ stored: [StoredMetadata], save: @escaping @Sendable (StoredMetadata) -> Void)
}
