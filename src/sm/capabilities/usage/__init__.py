"""Usage: counts the tokens of agents, and shows what sessions, trees and agent types have used."""
