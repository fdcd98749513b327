/// Who must act so that a user's requests carry a valid token, now and later.
package enum ResponsibleParty: String, Sendable, CaseIterable {
    /// Lanyard tries again by itself, or all is well.
    case nobody
    /// The operator of Lanyard: a key of the configuration, a credential's file, the client at the service, the network.
    case `operator`
    /// A login is needed: in a browser, with a code, or by the admin API.
    case user
}
