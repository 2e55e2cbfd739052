"""What consumer groups (KIP-848) and share groups (KIP-932) share: members, epochs, target and answers."""
