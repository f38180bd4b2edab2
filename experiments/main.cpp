// The copylab program.
int main() {
  return 0;
}
